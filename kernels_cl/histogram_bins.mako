## The slot of a value: the number of thresholds t[0 .. bins] that are <= v. Slot b + 1 is bin b. Slot 0 is below all bins
## (and NaN), slot bins + 1 above. t[b] is the least value of bin b, t[bins] the least value above the last bin.
## A multiplication guesses: clamp((v - first) * scale + shift, 0, cells). Equal bins: the guess is the nearest edge, and
## one comparison with this edge gives the slot. Other bins (`table`): the guess is a cell of a table of least slots; the
## slot is at most `most` slots above. The host chooses `shift`, table and `most` so that rounding does not matter.
## For 64-bit integers (`topped`), t[bins] may not exist, because the last edge is the greatest value: `top`, the greatest
## slot, is then `bins`, else bins + 1.
## Parameters of the calls: how, a dict of wide (C type in which values are compared), unsigned (its unsigned type for
## integers, else None), edge (C type of the thresholds), guess (C type of guesses), table, topped (has `top`).

## Parameters of a kernel or function, and the arguments of a call of `find_bin`.
<%def name="parameters(how)" filter="trim">
global const ${how["edge"]}* restrict t, const ${how["wide"]} first, const ${how["guess"]} scale, const ${how["guess"]} shift,
                            const int cells${", const int top" if how["topped"] else ""}${", global const int* restrict least, const int most" if how["table"] else ""}
</%def>
<%def name="arguments(how)" filter="trim">
t, first, scale, shift, cells${", top" if how["topped"] else ""}${", least, most" if how["table"] else ""}
</%def>

## Declares `name`, the guesses (int) of `v`, which has `lanes` values of type `wide`. A comparison with NaN is false:
## its guess is 0.
<%def name="guess(how, v, name, lanes='')">
            ${how["guess"]}${lanes} ${name}_real =
% if how["unsigned"]:
                convert_${how["guess"]}${lanes}(as_${how["unsigned"]}${lanes}(max(${v}, (${how["wide"]}${lanes}) first) - (${how["wide"]}${lanes}) first)) * scale + shift;
% else:
                (${v} - first) * scale + shift;
% endif
            ${name}_real = ${name}_real > 0 ? ${name}_real : (${how["guess"]}${lanes}) 0;
            ${name}_real = ${name}_real < (${how["guess"]}) cells ? ${name}_real : (${how["guess"]}${lanes}) (${how["guess"]}) cells;
            const int${lanes} ${name} = convert_int${lanes}(${name}_real);
</%def>

## Adds to `slot` how many of the thresholds from t[slot] on are <= v, at most `length` - 1 of them, until `length` is 2.
<%def name="narrow(slot, v, half)" filter="trim">
${slot} += ${half} & -(int) (${v} >= t[${slot} + ${half} - 1]);
</%def>

## The last comparison.
<%def name="settle(how, slot, v)" filter="trim">
${slot} += (int) (${v} >= t[${slot}]);${f" {slot} = min({slot}, top);" if how["topped"] else ""}
</%def>

## Defines `find_bin`: the bin of one value; -1 or the number of bins for values outside.
<%def name="find(how, source)">
static int find_bin(const ${source} value, ${parameters(how)}) {
    const ${how["wide"]} v = (${how["wide"]}) value;
    ${guess(how, "v", "guessed")}
% if how["table"]:
    int slot = least[guessed];
    for (int length = most + 1, half_; length > 2; length -= half_) {
        half_ = length / 2;
        ${narrow("slot", "v", "half_")}
    }
% else:
    int slot = guessed;
% endif
    ${settle(how, "slot", "v")}
    return slot - 1;
}
</%def>
