## Owner-write exchange: each work-item stores only to its own slots of local memory and, after a barrier, reads the
## slots of any work-item. pydp/local_memory.py chooses the layout: bank = lane mod banks; stores never conflict.
## Parameters of the calls: x (Exchange.params()); lane (int expression: the work-item's index in the work-group, best a
## name); slot (int expression). If a wave is smaller than the work-group, another lane is given by its index within the
## same wavefront (relative addressing), else by its index within the work-group (absolute addressing).
<%namespace name="barriers" file="wg_barrier.mako"/>
<%!
    def div(text, by):
        """text / by of an int that is not negative."""
        if by == 1:
            return text
        return f"({text} >> {by.bit_length() - 1})" if by & (by - 1) == 0 else f"({text} / {by})"

    def rem(text, by):
        if by == 1:
            return "0"
        return f"({text} & {by - 1})" if by & (by - 1) == 0 else f"({text} % {by})"

    def place(x, lane, slot):
        """The address of a slot, for a lane's number within its wavefront."""
        single = x["runs"] == 1  # all lanes in the same rows
        row = [] if single else [div(lane, x["across"]) + ("" if x["by_slot"] else f" * {x['rows']}")]
        if x["rows"] > 1:
            row.append(div(f"({slot})", x["entry"]) + (f" * {x['runs']}" if x["by_slot"] else ""))
        terms = [f"({' + '.join(row)}) * {x['pitch']}"] if row else []
        column = lane if single else rem(lane, x["across"])
        terms.append(column if x["entry"] == 1 else f"{column} * {x['entry']}")
        if x["entry"] > 1:
            terms.append(rem(f"({slot})", x["entry"]))
        return " + ".join(terms)
%>
<%def name="declare(name, type, x)">__local ${type} ${name}[${x["size"]}];</%def>

## The element of the work-item's own slot, as text.
<%def name="own(x, lane, slot)" buffered="True" filter="trim">
${of(x, lane, lane if x["wave"] == x["lanes"] else rem(f"({lane})", x["wave"]), slot)}
</%def>

## The element of another lane's slot, as text. `other`: its index within the work-group, or within the own wavefront.
<%def name="of(x, lane, other, slot)" buffered="True" filter="trim">
% if x["wave"] < x["lanes"]:
(${div(f"({lane})", x["wave"])} * ${x["wave_size"]} + ${place(x, f"({other})", slot)})
% else:
(${place(x, f"({other})", slot)})
% endif
</%def>

## Between stores and reads: synchronizes the lanes that exchange. lowerings: see pydp/groups/barrier_plan.py (a barrier
## named "exchange"); None for the whole work-group.
<%def name="synchronize(x, lowerings=None)">\
% if lowerings is None:
${barriers.group_barrier()}\
% else:
${barriers.synchronize("exchange", lowerings, x["lanes"])}\
% endif
</%def>
