## The hooks of a reduction: what it loads, its accumulator, and its result. The reduction kernels include this file.
## A run is a sequence of elements that a work-item folds in registers; its state is small and cheap to extend. A run is
## closed into an accumulator, a tuple of values. Accumulators are merged in any order. The last pass turns the
## accumulator into the results. A vector of W accumulators is a struct of vectors; some members are equal in all lanes.
## For each W in `widths` and for 1:
##   runW startW(x, y)                 a run of one element of each lane; y: only with a second input
##   runW extendW(run, x, y, i)        the run and one more element; i: its number in the run
##   tupleW closedW(run, count, index, stride)   the accumulator of a run of `count` elements; the element of number i
##                                     has the index `index + i * stride` in the reduced axis. With `adjacent`, lane k
##                                     holds the elements k places further; else lanes hold the same indexes.
##   tupleW mergeW(tupleW, tupleW)
##   tuple(W/2) lowW(tupleW), highW(tupleW)   the halves of the lanes; only with `adjacent`
##   tuple1 laneW_K(tupleW)            the accumulator of lane K; only without `adjacent`
## and `void finish(results, at, tuple1, n)`: stores the results of a fold of n elements.
## `hook` has: kind (merged, value, position, bounds, moments or exponentials: a def below), source, second (C types of
## the inputs; second may be ""), members ((name, C type, one for each lane) of the accumulator), results (C types), and
## the parameters of its kind.
<%!
from pydp.algorithms.operators import complex_before, complex_nan

SIGNED = {"char": "char", "uchar": "char", "short": "short", "ushort": "short", "half": "short", "int": "int",
          "uint": "int", "float": "int", "long": "long", "ulong": "long", "double": "long"}

def vector(name, w):
    return name if w == 1 else f"{name}{w}"

def to(name, w, value):
    """`value` converted to the C type `name`."""
    return f"({name}) ({value})" if w == 1 else f"convert_{name}{w}({value})"

def mask(name, w, value):
    """A comparison as a mask for values of the C type `name`."""
    return f"({value})" if w == 1 else f"convert_{SIGNED[name]}{w}({value})"

def pick(w, no, yes, test):
    return f"(({test}) ? ({yes}) : ({no}))" if w == 1 else f"select({no}, {yes}, {test})"

def kept_or_start(hook, run, w, test):
    """The element if `test` is true, else the start value. One driver's compiler crashes at a choice between an int8
    and a constant; it becomes arithmetic."""
    start, x = splat(run, w, hook["start"]), loaded(hook, w)
    return f"(char) ({start} ^ (({start} ^ {x}) & -({test})))" if (run, w) == ("char", 1) else pick(w, start, x, test)

def splat(name, w, value):
    return f"({vector(name, w)}) ({value})"

def inputs(hook, w):
    """The declarations of one element of each input."""
    second = f", const {vector(hook['second'], w)} y" if hook["second"] else ""
    return f"const {vector(hook['source'], w)} x{second}"

def names(hook):
    return "x, y" if hook["second"] else "x"

def element(hook, at, w=1):
    """The arguments of one element for each lane, at an offset from x and y."""
    texts = [f"x[{at}]" if w == 1 else f"LOAD{w}(x + {at})"]
    if hook["second"]:
        texts.append(f"y[{at}]" if w == 1 else f"SECOND{w}(y + {at})")
    return ", ".join(texts)

def advance(hook, distance):
    """An expression that advances the inputs."""
    return f"x += {distance}" + (f", y += {distance}" if hook["second"] else "")

def valid(hook, name, w):
    """The mask of the elements that count, for values of the C type `name`; "" if all do."""
    tests = []
    if "nan" in hook["skips"]:
        tests.append("x.x == x.x && x.y == x.y" if hook["source"][-1] == "2" else mask(name, w, "x == x"))
    if "masked" in hook["skips"]:
        tests.append(mask(name, w, f"y != {splat(hook['second'], w, 0)}"))
    return (" && " if w == 1 else " & ").join(tests)

def loaded(hook, w):
    """The expression of an element before the fold."""
    name, pair = hook["run"], hook["source"][-1] == "2"
    x, y = to(name, w, "x"), to(name, w, "y")
    if name[-1] == "2" and hook["load"] in ("product", "conjugate"):
        (a, b), (c, d) = ((f"{v}.x", f"{v}.y") if hook[kind][-1] == "2" else (v, "0") for v, kind in (("x", "source"), ("y", "second")))
        sign = ("-", "+") if hook["load"] == "product" else ("+", "-")
        return f"({name}) ({a} * {c} {sign[0]} {b} * {d}, {a} * {d} {sign[1]} {b} * {c})"
    if pair and hook["load"] != "own":
        return {
            "absolute": to(name, w, "hypot(x.x, x.y)"),
            "square": to(name, w, "x.x * x.x + x.y * x.y"),
            "nonzero": "(x.x != 0 || x.y != 0)",
            "power": f"pow({to(name, w, 'hypot(x.x, x.y)')}, {splat(name, w, hook['power'])})",
        }[hook["load"]]
    zero = splat(hook["source"], w, 0)
    both = "(x != 0) && (y != 0)" if w == 1 else f"(x != {zero}) & (y != {splat(hook['second'] or 'int', w, 0)})"
    return {
        "own": hook["convert"] if w == 1 else x,
        "absolute": f"fabs({x})",
        "square": f"{x} * {x}",
        "nonzero": "(x != 0)" if w == 1 else f"-{to(name, w, f'x != {zero}')}",
        "power": f"pow(fabs({x}), {splat(name, w, hook['power'])})",
        "product": f"{x} * {y}",
        "conjugate": f"{x} * {y}",
        "both": f"({both})" if w == 1 else f"-{to(name, w, both)}",
    }[hook["load"]]
%>
##
<%def name="functions(hook, widths, adjacent, last)">
% for w in [1, *(one for one in widths if one > 1)]:
typedef struct {
% for name, kind, each in hook["members"]:
    ${vector(kind, w if each else 1)} ${name};
% endfor
} tuple${w};
${{"merged": merged, "value": value, "position": position, "bounds": bounds, "moments": moments,
   "exponentials": exponentials}[hook["kind"]](hook, w, adjacent)}
% if w > 1 and adjacent:
% for half, part in (("low", "lo"), ("high", "hi")):
static tuple${w // 2} ${half}${w}(const tuple${w} t) {
    tuple${w // 2} r;
% for name, _, each in hook["members"]:
    r.${name} = t.${name}${f".{part}" if each else ""};
% endfor
    return r;
}
% endfor
% elif w > 1:
% for lane in range(w):
static tuple1 lane${w}_${f"{lane:x}"}(const tuple${w} t) {
    tuple1 r;
% for name, _, each in hook["members"]:
    r.${name} = t.${name}${f".s{lane:x}" if each else ""};
% endfor
    return r;
}
% endfor
% endif
% endfor
#define combine merge1
% if last:
static void finish(${", ".join(f"global {kind}* restrict r{k}" for k, kind in enumerate(hook["results"]))}, const ulong at, const tuple1 t, const long n) {
    ${finish_body(hook)}
}
% endif
</%def>
##
## Arguments of the kernels after all others: the second input, the elements of a whole fold, the second result.
<%def name="arguments(hook, second, last)">\
% if second:
, global const ${hook["second"]}* restrict y, const ulong y_offset\
% endif
% if last:
, const long elements\
% if len(hook["results"]) > 1:
, global ${hook["results"][1]}* restrict other_result\
% endif
% endif
</%def>
<%def name="store(hook, last, at, sum, bounded)">\
% if last:
finish(result, ${"other_result, " if len(hook["results"]) > 1 else ""}(ulong) (${at}), ${sum}, ${"length[0]" if bounded else "elements"});\
% else:
result[${at}] = ${sum};\
% endif
</%def>
##
<%def name="finish_body(hook)">
<%
    kind, how = hook["result_kind"], hook["finish"]
    own = hook["members"][0][1]
    one = "float" if own == "float2" else "double" if own == "double2" else own
%>
% if how == "own":
    r0[at] = (${kind}) (t.${hook["members"][0][0]});
% elif how == "test":
    r0[at] = (${kind}) (t.value != 0);
% elif how == "root":
    r0[at] = (${kind}) sqrt(t.value);
% elif how == "power root":
    r0[at] = (${kind}) pow(t.value, ${hook["root"]});
% elif how == "mean":
    r0[at] = (${kind}) (t.value / (${one}) n);
% elif how == "mean of counted":
    r0[at] = (${kind}) (t.value / (${one}) t.count);
% elif how == "index":
    r0[at] = t.index;
% elif how == "index of number":
    r0[at] = ${f"!{complex_nan('t.value')}" if own[-1] == "2" else "t.value == t.value"} ? t.index : -1;
% elif how == "both":
    r0[at] = t.low;
    r1[at] = t.high;
% elif how in ("variance", "deviation", "mean and variance"):
    const ${one} degrees = (${one}) t.count - (${one}) ${hook["ddof"]};
    const ${one} variance = t.square / (degrees > 0 ? degrees : (${one}) ${"NAN" if "nan" in hook["skips"] else "0"});
% if how == "mean and variance":
<%
    mean = f"t.mean{' + t.low' if any(name == 'low' for name, _, _ in hook['members']) else ''}"
    none = f"({own}) (NAN)"
%>
    r0[at] = ${f"convert_{kind}" if own[-1] == "2" else f"({kind}) "}(t.count > 0 && t.square == t.square ? ${mean} : ${none});
    r1[at] = (${hook["results"][1]}) variance;
% else:
    r0[at] = (${kind}) ${"sqrt(variance)" if how == "deviation" else "variance"};
% endif
% elif how == "logarithm":
    r0[at] = (${kind}) (t.top + log(t.sum));
% endif
</%def>
##
## Accumulators of an earlier pass.
<%def name="merged(hook, w, adjacent)">
${{"value": value, "position": position, "bounds": bounds, "moments": moments,
   "exponentials": exponentials}[hook["first_kind"]](hook, w, adjacent, only_merge=True)}
typedef tuple1 run1;
static run1 start1(const tuple1 x) { return x; }
static run1 extend1(const run1 r, const tuple1 x, const int i) { return merge1(r, x); }
static tuple1 closed1(const run1 r, const long count, const long index, const long stride) { return r; }
</%def>
##
## One value, folded by an operator. Parameters: run (C type of the value in a run), load, convert (C expression of x),
## skips ("nan": NaN does not count; "masked": elements with y == 0 do not count), start (identity as C), power (the
## exponent as C, of the load "power"), root (its reciprocal, of the finish "power root"), counted (the number of
## elements that count is kept too); operator: functions fold_runW and foldW.
<%def name="value(hook, w, adjacent, only_merge=False)">
<%
    run, own = hook["run"], hook["members"][0][1]
    test = valid(hook, run, w) if hook["skips"] else ""
    counted = hook["counted"]
    count = vector(SIGNED.get(run, "int"), w) if w > 1 else "int"
%>
% if not only_merge:
typedef struct {
    ${vector(run, w)} value;
% if counted:
    ${count} count;
% endif
} run${w};
static run${w} start${w}(${inputs(hook, w)}) {
    run${w} r;
% if test:
    r.value = ${kept_or_start(hook, run, w, test)};
% else:
    r.value = ${loaded(hook, w)};
% endif
% if counted:
    r.count = ${f"({test}) ? 1 : 0" if w == 1 else f"-({test})"};
% endif
    return r;
}
static run${w} extend${w}(run${w} r, ${inputs(hook, w)}, const int i) {
    const run${w} b = start${w}(${names(hook)});
    r.value = fold_run${w}(r.value, b.value);
% if counted:
    r.count += b.count;
% endif
    return r;
}
static tuple${w} closed${w}(const run${w} r, const long count, const long index, const long stride) {
    tuple${w} t;
    t.value = ${"r.value" if run == own else to(own, w, "r.value")};
% if counted:
    t.count = ${to("long", w, "r.count")};
% endif
    return t;
}
% endif
static tuple${w} merge${w}(tuple${w} a, const tuple${w} b) {
    a.value = fold${w}(a.value, b.value);
% if counted:
    a.count += b.count;
% endif
    return a;
}
</%def>
##
## The first extreme value and its index. Parameters: sign (">" for the maximum), nan ("first": NaN is the extreme value;
## "last": only if there is nothing else; "": there is no NaN).
<%def name="position(hook, w, adjacent, only_merge=False)">
<%
    own = hook["members"][0][1]
    count = vector(SIGNED[own], w) if w > 1 else "int"
    join = {"or": "||", "and": "&&"} if w == 1 else {"or": "|", "and": "&"}
    no = "!" if w == 1 else "~"
    pair = own[-1] == "2"
    def beats(x, v):
        if pair:
            nan, number = (x, v) if hook["nan"] == "first" else (v, x)
            before = complex_before(x, v, "max" if hook["sign"] == ">" else "min")
            return f"({before} || ({complex_nan(nan)} && !{complex_nan(number)}))"
        if hook["nan"] == "first":
            return f"(({x} {hook['sign']} {v}) {join['or']} (({x} != {x}) {join['and']} ({v} == {v})))"
        if hook["nan"] == "last":
            return f"(({x} {hook['sign']} {v}) {join['or']} (({v} != {v}) {join['and']} ({x} == {x})))"
        return f"({x} {hook['sign']} {v})"
    wide = lambda test: mask("long", w, test)
    lanes = "(" + vector("long", w) + ") (" + ", ".join(map(str, range(w))) + ")"
%>
% if not only_merge:
typedef struct {
    ${vector(own, w)} value;
    ${count} at;
} run${w};
static run${w} start${w}(${inputs(hook, w)}) {
    run${w} r;
    r.value = x;
    r.at = 0;
    return r;
}
static run${w} extend${w}(run${w} r, ${inputs(hook, w)}, const int i) {
% if w == 1:
    if (${beats("x", "r.value")}) {
        r.value = x;
        r.at = i;
    }
% else:
    const ${count} better = ${beats("x", "r.value")};
    r.value = select(r.value, x, better);
    r.at = select(r.at, (${count}) ((${SIGNED[own]}) i), better);
% endif
    return r;
}
static tuple${w} closed${w}(const run${w} r, const long count, const long index, const long stride) {
    tuple${w} t;
    t.value = r.value;
    t.index = index + ${to("long", w, "r.at")} * stride${f" + {lanes}" if adjacent and w > 1 else ""};
    return t;
}
% endif
static tuple${w} merge${w}(tuple${w} a, const tuple${w} b) {
% if w == 1:
    const int before = ${beats("b.value", "a.value")} || (!${beats("a.value", "b.value")} && b.index < a.index);
    if (before) a = b; /* `before ? b : a` would choose between two structs in memory */
    return a;
% else:
    const ${count} better = ${beats("b.value", "a.value")};
    const ${vector("long", w)} before = ${wide("better")} | (~${wide(beats("a.value", "b.value"))} & (b.index < a.index));
    a.value = select(a.value, b.value, ${f"convert_{count}(before)"});
    a.index = select(a.index, b.index, before);
    return a;
% endif
}
</%def>
##
## The minimum and the maximum. Parameters: nan ("first": NaN is the result; "": there is no NaN).
<%def name="bounds(hook, w, adjacent, only_merge=False)">
<%
    own = hook["members"][0][1]
    both = "||" if w == 1 else "|"
    def extreme(a, b, sign):
        if own[-1] == "2":
            return pick(w, b, a, f"{complex_nan(a)} || {complex_before(a, b, 'max' if sign == '>' else 'min', True)}")
        return pick(w, b, a, f"({a} {sign}= {b})" + (f" {both} ({a} != {a})" if hook["nan"] else ""))
%>
% if not only_merge:
typedef tuple${w} run${w};
static run${w} start${w}(${inputs(hook, w)}) {
    run${w} r;
    r.low = x;
    r.high = x;
    return r;
}
static run${w} extend${w}(run${w} r, ${inputs(hook, w)}, const int i) {
    r.low = ${extreme("r.low", "x", "<")};
    r.high = ${extreme("r.high", "x", ">")};
    return r;
}
static tuple${w} closed${w}(const run${w} r, const long count, const long index, const long stride) { return r; }
% endif
static tuple${w} merge${w}(tuple${w} a, const tuple${w} b) {
    a.low = ${extreme("a.low", "b.low", "<")};
    a.high = ${extreme("a.high", "b.high", ">")};
    return a;
}
</%def>
##
## Number, mean and sum of squared deviations from the mean (Chan, Golub, LeVeque: Updating formulae, 1979). A run keeps
## the sums of x - shift and of its square; its first element is the shift. The squared deviations of a run of n elements
## are at least 1/n of that sum of squares, because the shift is one of them: little is cancelled. On devices without
## double, the mean has a second part, `low`, so that a large mean does not round the differences of means.
## For complex numbers, the squared deviations of the real and of the imaginary parts are added.
## Parameters: run (C type of the sums of a run), skips (see `value`).
<%def name="moments(hook, w, adjacent, only_merge=False)">
<%
    run, own = hook["run"], hook["members"][0][1]
    pairs = own[-1] == "2"
    real_run, real = (run[:-1], own[:-1]) if pairs else (run, own)
    test = valid(hook, run, w) if hook["skips"] else ""
    one, none, no_sum, no_square = splat(real_run, w, 1), splat(real_run, w, 0), splat(run, w, 0), splat(real, w, 0)
    two_parts = any(name == "low" for name, _, _ in hook["members"])
    converted = lambda name, value: f"convert_{name}({value})" if name[-1] == "2" else to(name, w, value)
    product = lambda a, b: f"({a}.x * {b}.x + {a}.y * {b}.y)" if pairs else f"{a} * {b}"
%>
% if not only_merge:
typedef struct {
    ${vector(run, w)} shift, sum;
    ${vector(real_run, w)} square;
% if test:
    ${vector(real_run, w)} count;
% endif
} run${w};
static run${w} start${w}(${inputs(hook, w)}) {
    run${w} r;
    r.shift = ${converted(run, "x")};
## NaN for an infinite element, whose deviation is not a number; else 0.
    r.sum = ${pick(w, no_sum, "r.shift - r.shift", test) if test else "r.shift - r.shift"};
    r.square = ${none};
% if test:
    r.count = ${pick(w, none, one, test)};
% endif
    return r;
}
static run${w} extend${w}(run${w} r, ${inputs(hook, w)}, const int i) {
% if test:
    r.shift = ${pick(w, "r.shift", converted(run, "x"), f"r.count == {none}")};
    const ${vector(run, w)} d = ${pick(w, no_sum, converted(run, "x") + " - r.shift", test)};
    r.count += ${pick(w, none, one, test)};
% else:
    const ${vector(run, w)} d = ${converted(run, "x")} - r.shift;
% endif
    r.sum += d;
    r.square += ${product("d", "d")};
    return r;
}
static tuple${w} closed${w}(const run${w} r, const long count, const long index, const long stride) {
    tuple${w} t;
    const ${vector(own, w)} sum = ${converted(own, "r.sum")};
% if test:
    const ${vector(own, w)} shift = ${converted(own, pick(w, no_sum, "r.shift", f"r.count > {none}"))};
    t.count = ${to(real, w, "r.count")};
    const ${vector(own, w)} mean = sum / fmax(t.count, ${splat(real, w, 1)});
% else:
    const ${vector(own, w)} shift = ${converted(own, "r.shift")};
    t.count = count;
    const ${vector(own, w)} mean = sum * ((${real}) 1 / (${real}) count);
% endif
    const ${vector(real, w)} square = ${to(real, w, "r.square")} - ${product("sum", "mean")};
% if two_parts:
    ${two_sum(vector(own, w), "t.mean", "t.low", "shift", "mean")}
% else:
    t.mean = shift + mean;
% endif
    t.square = ${pick(w, "square", no_square, f"square < {no_square}")};
    return t;
}
% endif
static tuple${w} merge${w}(tuple${w} a, const tuple${w} b) {
    const ${vector(own, w)} d = ${"(b.mean - a.mean) + (b.low - a.low)" if two_parts else "b.mean - a.mean"};
% if hook["skips"]:
    const ${vector(real, w)} count = a.count + b.count;
    const ${vector(real, w)} share = b.count / fmax(count, ${splat(real, w, 1)});
    a.square += b.square + ${product("d", "d")} * (a.count * share);
% else:
    const long count = a.count + b.count;
    const ${real} share = (${real}) b.count / (${real}) count;
    a.square += b.square + ${product("d", "d")} * ((${real}) a.count * share);
% endif
% if two_parts:
    const ${vector(own, w)} mean = a.mean, more = a.low + d * share;
    ${two_sum(vector(own, w), "a.mean", "a.low", "mean", "more")}
% else:
    a.mean += d * share;
% endif
    a.count = count;
    return a;
}
</%def>
##
## Sets sum + error to a + b without rounding (Knuth's two-sum).
<%def name="two_sum(type, sum, error, a, b)">
    ${sum} = ${a} + ${b};
    {
        const ${type} second = ${sum} - ${a};
        ${error} = (${a} - (${sum} - second)) + (${b} - second);
    }
</%def>
##
## The maximum, and the sum of exp(x - maximum): the logarithm of a sum of exponentials without overflow. An element that
## equals the maximum counts exactly 1, so infinities are exact. Parameters: skips (see `value`).
<%def name="exponentials(hook, w, adjacent, only_merge=False)">
<%
    own = hook["members"][0][1]
    one = splat(own, w, 1)
    larger = lambda a, b: pick(w, b, a, f"({a} >= {b}) {'||' if w == 1 else '|'} ({a} != {a})")
    scale = lambda a, top: pick(w, f"exp({a} - {top})", one, f"{a} == {top}")
    x = to(own, w, "x")
    test = valid(hook, own, w) if hook["skips"] and not only_merge else ""
%>
% if not only_merge:
typedef tuple${w} run${w};
static run${w} start${w}(${inputs(hook, w)}) {
    run${w} r;
    r.top = ${pick(w, splat(own, w, "-INFINITY"), x, test) if test else x};
    r.sum = ${pick(w, splat(own, w, 0), one, test) if test else one};
    return r;
}
% endif
static tuple${w} merge${w}(tuple${w} a, const tuple${w} b) {
    const ${vector(own, w)} top = ${larger("a.top", "b.top")};
    a.sum = a.sum * ${scale("a.top", "top")} + b.sum * ${scale("b.top", "top")};
    a.top = top;
    return a;
}
% if not only_merge:
static run${w} extend${w}(run${w} r, ${inputs(hook, w)}, const int i) { return merge${w}(r, start${w}(${names(hook)})); }
static tuple${w} closed${w}(const run${w} r, const long count, const long index, const long stride) { return r; }
% endif
</%def>
