## Elementwise operations on strided data: copies, conversions, arithmetic and comparisons of fields.
##
## out[k] = op(x0[k], x1[k], ...) for all indices k of a shape of `rank` axes. The caller has merged the axes: most
## calls have rank 1.
##
## Launch: dimension 0 is the last axis, dimension 1 all other axes together (repeated for each index of dimension 2 if
## a launch has too many rows). All sizes are padded to whole work-groups. No local memory, no barrier. A work-item
## computes `items` elements, which are a work-group's size apart. It loads all before it stores one: GPUs need many loads
## in flight to reach the rate of their memory.
##
## For large results on CPUs (`block`), work-groups have one work-item. It computes `part` elements of a row in private
## memory, one block after another, and stores each block past the caches: cache lines are then not read before they are
## overwritten. The elements before the first whole line and after the last block are stored one by one.
##
## Parameters: name (of the kernel) · items · block (elements of whole cache lines; 0: no blocks) · part · ahead (whether
## a work-item with blocks prefetches its inputs) · declarations (C text that the types need) · rank (1 to 8) · last (the
## strides along the last axis, 1, -1 or 0, of "out" and of each input that is no number, "a0", ...; None: they are
## arguments. Some compilers vectorize only accesses whose strides they know) · out (C type) · inputs (list of {type: C
## type of an element, bytes of an element of an array, number: passed by value}) · kind (what is computed):
## "steps": steps, a list of operations; the last one gives the result. A step has op, args (list of {value: C name of an
##   input or of an earlier result, type, lane: "real" | "complex" | "bool" | "opaque"}) and out (C type of its result).
##   op "copy" "add" "sub" "mul" "div" "and" "or" "xor": compute (C type of the operation) · unsigned (its unsigned form, or "") · scalar
##   (component type of a complex compute type) · lane (of compute) · out_lane.
##   op "eq" "ne" "lt" "le" "gt" "ge": relation (the C operator) · pair (how to compare two elements: comparison.pair in
##   pydp/runtime).
## "call": function (the source of a C function ``evaluate`` of all inputs in their own types).
##
## Integers wrap: they are added, subtracted and multiplied as unsigned integers. Each result is rounded to its own type,
## so several steps in one kernel give the same bits as a kernel for each of them.
<%namespace name="memory" file="prefetch.mako"/>\
<%def name="converted(x, type, to, have, want, component)">\
% if have == want == "opaque" or (type == to and have == want):
${x}\
% elif want == "complex" and have == "complex":
convert_${to}(${x})\
% elif want == "complex":
(${to})((${component})${x}, 0)\
% elif want == "bool" and have == "complex":
(uchar)(${x}.x != 0 || ${x}.y != 0)\
% elif want == "bool":
(uchar)(${x} != 0)\
% elif have == "complex":
(${to})${x}.x\
% else:
(${to})${x}\
% endif
</%def>\
## NumPy's order of complex numbers: first real parts, then imaginary parts; false with NaN.
## long with ulong: a ulong beyond the range of long is the larger one. (A test for a negative long would also be right,
## but one driver assumes that a long converted from an int is not negative.)
<%def name="related(x, y, sign, lane, signed)">\
% if lane == "complex" and sign == "==":
(${x}.x == ${y}.x && ${x}.y == ${y}.y)\
% elif lane == "complex" and sign == "!=":
(${x}.x != ${y}.x || ${x}.y != ${y}.y)\
% elif lane == "complex":
((${x}.x ${sign[0]} ${y}.x && !isnan(${x}.y) && !isnan(${y}.y)) || (${x}.x == ${y}.x && ${x}.y ${sign} ${y}.y))\
% elif signed == "left":
((long)${y} < 0 ? ${int(sign in ("!=", "<", "<="))} : ${x} ${sign} (long)${y})\
% elif signed == "right":
((long)${x} < 0 ? ${int(sign in ("!=", ">", ">="))} : (long)${x} ${sign} ${y})\
% else:
(${x} ${sign} ${y})\
% endif
</%def>\
## Sets `found` to whether the elements at x and y (C expressions) are related.
<%def name="scalars_related(x, y, pair, sign)">
% for name, place, side in zip(("x", "y"), (x, y), pair["sides"]):
        const ${side["to"]} ${name} = ${converted(place, side["type"], side["to"], side["lane"], side["to_lane"], side["part"])};
% endfor
        found = ${related("x", "y", sign, pair["sides"][0]["to_lane"], pair["signed"])};
</%def>\
## Clears `found` if a member of the records (or a component of the vectors) x and y differs.
<%def name="members_equal(x, y, members, depth)">
% for member in members:
<% axes = [f"m{depth}_{axis}" for axis in range(len(member["shape"]))] %>\
<% places = [one + "." + name + "".join(f"[{axis}]" for axis in axes) for one, name in zip((x, y), member["names"])] %>\
% for axis, size in zip(axes, member["shape"]):
        for (int ${axis} = 0; ${axis} < ${size}; ++${axis})
% endfor
        if (found) {
% if "members" in member["pair"]:
${members_equal(*places, member["pair"]["members"], depth + 1)}
% else:
${scalars_related(*places, member["pair"], "==")}
% endif
        }
% endfor
</%def>\
## The result of a comparison.
<%def name="comparison(step, result)">
<% ends = [one["value"] for one in step["args"]] %>\
        int found = 1;
% if "members" in step["pair"]:
${members_equal(*ends, step["pair"]["members"], 0)}
        ${result} = (uchar)${"found" if step["op"] == "eq" else "!found"};
% else:
${scalars_related(*ends, step["pair"], step["relation"])}
        ${result} = (uchar)found;
% endif
</%def>\
## The result of an operation of numbers, or a copy.
<%def name="arithmetic(step, result)">
<% op, compute, lane, unsigned = (step[name] for name in ("op", "compute", "lane", "unsigned")) %>\
% for name, one in zip(("x", "y"), step["args"]):
        const ${compute} ${name} = ${converted(one["value"], one["type"], compute, one["lane"], lane, step["scalar"])};
% endfor
% if op == "copy":
        const ${compute} z = x;
% elif lane == "complex" and op == "mul":
        const ${compute} z = (${compute})(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x);
% elif lane == "complex" and op == "div":
        const ${compute} z = quotient_${compute}(x, y);
% elif op == "div":
        const ${compute} z = x / y;
% else:
<% sign = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}[op] %>\
% if unsigned:
        const ${compute} z = (${compute})((${unsigned})x ${sign} (${unsigned})y);
% else:
        const ${compute} z = x ${sign} y;
% endif
% endif
        ${result} = ${converted("z", compute, step["out"], lane, step["out_lane"], "float")};
</%def>\
#pragma OPENCL FP_CONTRACT OFF
${declarations}
% for scalar, compute in sorted({(one["scalar"], one["compute"]) for one in steps if one["op"] == "div" and one["lane"] == "complex"}):
## Smith's algorithm: divide by the larger part of the divisor first, which avoids overflow of squares.
${compute} quotient_${compute}(${compute} a, ${compute} b)
{
    const int wide = fabs(b.x) >= fabs(b.y);
    const ${scalar} large = wide ? b.x : b.y, small = wide ? b.y : b.x;
    if (large == 0)
        return (${compute})(a.x / large, a.y / large);
    const ${scalar} ratio = small / large;
    const ${scalar} divisor = large + small * ratio;
    return wide ? (${compute})((a.x + a.y * ratio) / divisor, (a.y - a.x * ratio) / divisor)
                : (${compute})((a.x * ratio + a.y) / divisor, (a.y * ratio - a.x) / divisor);
}
% endfor
${function}
<%
    arrays = ["out"] + [f"a{n}" for n, one in enumerate(inputs) if not one["number"]]
    axes = rank - (last is not None)  # whose strides are arguments
%>\
__kernel ${one_lane if block else ""} void ${name}(__global ${out}* out, long out_at,
% for n, one in enumerate(inputs):
% if one["number"]:
                      ${one["type"]} a${n},
% else:
                      __global const ${one["type"]}* a${n}, long a${n}_at,
% endif
% endfor
% for axis in range(axes):
% for array in arrays:
                      long ${array}_s${axis},
% endfor
% endfor
% for axis in range(1, rank - 1):
                      long size${axis},
% endfor
% if axes:
                      long rows,
% endif
                      long columns)
{
    const long column = ${f"(long)get_group_id(0) * {part}" if block else "get_global_id(0)" if items == 1 else f"(long)get_group_id(0) * ({items} * (long)get_local_size(0)) + (long)get_local_id(0)"};
% if axes:
    const long row = (long)get_global_id(1) + (long)get_global_id(2) * (long)get_global_size(1);
    /* The divisions come before the condition: compilers then move them out of the loop over a row. */
    long rest = row;
% for axis in range(rank - 2, 0, -1):
    const long k${axis} = rest % size${axis};
    rest /= size${axis};
% endfor
    if (column < columns && row < rows) {
% if rank > 1:
        const long k0 = rest;
% endif
% else:
    if (column < columns) {
% endif
% if block:
${in_blocks()}
% elif items == 1:
${loaded("column", "")}
${computed("column", "")}
% else:
        const long stride = get_local_size(0);
        if (column + ${items - 1} * stride < columns) {
% for k in range(items):
            const long c${k} = column + ${k} * stride;
${loaded(f"c{k}", f"_{k}")}
% endfor
% for k in range(items):
            {
${computed(f"c{k}", f"_{k}")}
            }
% endfor
        } else for (long c = column; c < columns; c += stride) {
${loaded("c", "_0")}
${computed("c", "_0")}
        }
% endif
    }
}
<%def name="place(array, column)"><%
    at = "".join(f" + k{axis} * {array}_s{axis}" for axis in range(rank - 1))
    along = f" + {column} * {array}_s{rank - 1}" if last is None else {0: "", 1: f" + {column}", -1: f" - {column}"}[last[array]]
    %>${f"{array}_at{at}{along}"}</%def>\
## Loads the inputs of the element of a column.
<%def name="loaded(column, suffix)">\
% for n, one in enumerate(inputs):
% if not one["number"]:
        const ${one["type"]} e${n}${suffix} = a${n}[${place(f"a{n}", column)}];
% endif
% endfor
</%def>\
## Computes and stores the elements of a row from `column` on, in blocks. Inputs are read at pointers to the first element
## of a block: Intel's compiler does not see that the elements c + j of an array are adjacent. Clang lets vector types
## alias all types.
<%def name="in_blocks()">\
        const long end = min(column + ${part}, columns);
        const int before = (64 - (int)((ulong)(out + ${place("out", "column")}) & 63)) % 64; /* bytes before a line */
        /* If no record begins at a line, all are stored one by one. */
        const long whole = before % (int)sizeof(${out}) ? end : min(column + before / (int)sizeof(${out}), end);
        long c = column;
        for (; c < whole; ++c) {
${loaded("c", "")}
${computed("c", "")}
        }
        for (; c + ${block} <= end; c += ${block}) {
            ${out} values[${block}] __attribute__((aligned(64)));
% for n, one in enumerate(inputs):
% if not one["number"]:
            __global const ${one["type"]}* const p${n} = a${n} + ${place(f"a{n}", "c")};
% if ahead and last[f"a{n}"] == 1 and block * one["bytes"] <= 4096: # the text of more would be long
            ${memory.ahead(f"p{n}", block * one["bytes"])}
% endif
% endif
% endfor
            __attribute__((opencl_unroll_hint(1))) /* unrolled loops are not vectorized */
            for (int j = 0; j < ${block}; ++j) {
% for n, one in enumerate(inputs):
% if not one["number"]:
                const ${one["type"]} e${n} = p${n}[${{0: "0", 1: "j", -1: "-j"}[last[f"a{n}"]]}];
% endif
% endfor
${computed("", "", "values[j]")}
            }
            private const ulong8* const lines = (private const ulong8*)values;
            global ulong8* const to = (global ulong8*)(out + ${place("out", "c")});
            for (int j = 0; j < (int)(sizeof(values) / 64); ++j)
                __builtin_nontemporal_store(lines[j], to + j);
        }
        for (; c < end; ++c) {
${loaded("c", "")}
${computed("c", "")}
        }
</%def>\
## Computes the element of a column from its loaded inputs, and stores it there or at `target`.
<%def name="computed(column, suffix, target='')">\
<% target = target or f"out[{capture(place, 'out', column).strip()}]" %>\
% if kind == "call":
        ${target} = evaluate(${", ".join(f"a{n}" if one["number"] else f"e{n}{suffix}" for n, one in enumerate(inputs))});
% else:
% for n, one in enumerate(inputs):
% if suffix and not one["number"]:
        const ${one["type"]} e${n} = e${n}${suffix};
% endif
% endfor
% for n, one in enumerate(steps):
        ${one["out"]} r${n};
        {
% if one["relation"]:
${comparison(one, f"r{n}")}
% else:
${arithmetic(one, f"r{n}")}
% endif
        }
% endfor
        ${target} = r${len(steps) - 1};
% endif
</%def>\
