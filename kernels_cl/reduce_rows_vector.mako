## Folds rows, or parts of rows, with one work-item each (CPU mapping). Elements of a row have stride `step`.
## Phases, for each row: chunks are folded with several accumulators; the chunks' results are combined pairwise, as a
## binary counter carries (the result of 2^j chunks waits in levels[j]), therefore rounding errors grow with the
## logarithm of the length; then the rest. With width 0, operands stay in order, for any associative operator. With a
## width, `unroll` vectors are interleaved in a chunk, for commutative operators and step 1; the vector that is left is
## halved until it is one element, and every half takes part of the rest. Adjacent rows of a few elements are folded
## `width` rows at a time: vectors of elements become vectors of results, in order. With width 0, they are one loop,
## which compilers turn into vectors of rows.
## With `joins`, the last work-item to end folds the parts of all rows, pairwise and in order: the results do not depend
## on which work-item it is. Parts are published as tagged words (wg_lookback.mako), and a ticket counts them.
## Launch: one work-item for a part of `each` rows; rows vary fastest. Results are stored as (parts, rows), or, with
## `joins`, as (rows).
## Parameters: declarations, source, accumulator (C types), source_bytes, prefetch (see Profile.prefetches), convert (C
## expression of x), unroll (accumulators of a chunk, a power of two; 0: no chunks), chain (elements of an accumulator in a chunk), several (`each` is above 1),
## fixed (the number of elements of adjacent rows, if it is small and the rows are not cut into parts; else 0),
## outer_dims (axes of the rows), initial (there is a first value), joins (`each` is 1); with joins, the parameters of wg_lookback;
## bounded (one row of `capacity` elements, of which the first length / unit, rounded up, count; length is read on the
## device), empty (C expression of the result without elements; "": an earlier pass, which stores none);
##   operator, width, narrow, narrow_convert, wide, wide_convert (see reduce_parts.mako; width 0: no vectors);
##   hook (see reduce_hooks.mako; None: none; else narrow and the two conversions are not used), and if there is one,
##   last (this is the last pass), target (C type of the results), second_bytes (of an element of the second input).
<%namespace name="parts" file="reduce_parts.mako"/>
<%namespace name="hooks" file="reduce_hooks.mako"/>
<%namespace name="lookback" file="wg_lookback.mako"/>
<%namespace name="memory" file="prefetch.mako"/>
<%
    held, joined = (wide, f"wide_combine{width}") if width else (accumulator, "combine")
    accumulators = [f"s{u}" for u in range(unroll)]
    blocks, place = [], 0  # of adjacent rows: the elements of a row, as powers of two
    while place < fixed:
        size = min(1 << (fixed - place).bit_length() - 1, width or 1 << 30)
        blocks.append((place, size))
        place += size
    chunk = parts.module.pairwise(f"narrow_combine{width}" if width else "combine", accumulators) if unroll else ""
%>
<%def name="carry(value, type, function)">
            {
                ${type} v = ${value};
                int j = 0;
                for (++chunks; !(chunks >> j & 1); ++j) v = ${function}(levels[j], v);
                levels[j] = v;
            }
</%def>
<%def name="total(name, type, function)">
        int j = 0;
        while (!(chunks >> j & 1)) ++j;
        ${type} ${name} = levels[j];
        for (++j; chunks >> j; ++j)
            if (chunks >> j & 1) ${name} = ${function}(levels[j], ${name});
</%def>
<%def name="vectors(name)">
            ${name} = ${wide_convert}(${narrow_convert}(LOAD${width}(x)));
            for (x += ${width}, count -= ${width}; count >= ${width}; x += ${width}, count -= ${width})
                ${name} = ${joined}(${name}, ${wide_convert}(${narrow_convert}(LOAD${width}(x))));
</%def>
## Makes `name` the accumulator of a run of all whole vectors of `w` elements; declares it unless it is declared.
<%def name="run(w, name, step, declared=False)">
<% element, advance = hooks.module.element(hook, 0, w), hooks.module.advance(hook, step) %>
            const int length = (int) (count / ${w});
            run${w} r = start${w}(${element});
            ${advance};
            for (int i = 1; i < length; ++i, ${advance}) r = extend${w}(r, ${element}, i);
            ${"" if declared else f"tuple{w} "}${name} = closed${w}(r, length, index, ${w});
            count -= ${w} * length;
            index += ${w} * length;
</%def>
<%def name="load(address, size)" buffered="True" filter="trim">
% if size == 1:
converted(*(${address}))
% else:
${"" if source == accumulator else f"convert_{accumulator}{size}"}(LOAD${size}(${address}))
% endif
</%def>
<%def name="alternate(a, b, first)" buffered="True" filter="trim">
${", ".join(f"{v}.s{i:x}" for v in (a, b) for i in range(first, width, 2))}
</%def>
## Defines b`place`: of `width` adjacent rows, the results of the `size` elements from `place` on (at most `width`, a power
## of two). Vectors hold whole pieces of rows; each step combines adjacent elements of all pieces. Vectors are made from
## elements: Oclgrind crashes for vectors made from shorter vectors.
<%def name="transposed(place, size)">
<%
    names = [f"b{place}_{v}" for v in range(size)]
    piece = f"{accumulator}{'' if size == 1 else size}"
    elements = [""] if size == 1 else [f".s{i:x}" for i in range(size)]
%>
% for row in range(width):
        const ${piece} r${place}_${row} = ${load(f"x + {row * fixed + place}", size)};
% endfor
% for v, name in enumerate(names):
        const ${wide} ${name} = (${wide}) (${", ".join(f"r{place}_{v * width // size + r}{e}" for r in range(width // size) for e in elements)});
% endfor
% while len(names) > 1:
<% pairs = list(zip(names[::2], names[1::2])); names = [a + "_" for a, _ in pairs] %>
% for (a, b), name in zip(pairs, names):
        const ${wide} ${name} = wide_combine${width}((${wide}) (${alternate(a, b, 0)}), (${wide}) (${alternate(a, b, 1)}));
% endfor
% endwhile
        const ${wide} b${place} = ${names[0]};
</%def>
${declarations}
${operator}
% if hook:
${parts.loads(source, width)}
% else:
${parts.functions(source, accumulator, convert)}
${parts.vectors(source, accumulator, width)}
% endif

% if hook:
${hooks.functions(hook, widths, True, last)}
<%
    second = bool(hook["second"])
    elements = lambda at, w=1: hooks.module.element(hook, at, w)
    advance = lambda distance: hooks.module.advance(hook, distance)
    one = lambda w: f"closed{w}(start{w}({elements('0', w)}), 1, index, 0)"
%>
% if second:
${parts.loads(hook["second"], width, "SECOND", "second")}
% endif
## `x` and `y` advance with the loops, `index` after them.
static tuple1 folded(global const ${source}* restrict x, ${f'global const {hook["second"]}* restrict y, ' if second else ""}const long step, long count, long index) {
% if unroll:
    tuple${width or 1} levels[48];
    long chunks = 0;
% endif
% if width:
    if (count >= ${width}) {
% if unroll:
        for (long length; count >= ${width * unroll}; count -= length * ${width * unroll}, index += length * ${width * unroll}) {
            length = min(${chain}L, count / ${width * unroll});
% for u in range(unroll):
            run${width} s${u} = start${width}(${elements(u * width, width)});
% endfor
            ${advance(width * unroll)};
            for (long i = 1; i < length; ++i, ${advance(width * unroll)}) {
% if prefetch:
                ${memory.ahead("x", width * unroll * source_bytes)}
%   if second:
                ${memory.ahead("y", width * unroll * second_bytes)}
%   endif
% endif
% for u in range(unroll):
                s${u} = extend${width}(s${u}, ${elements(u * width, width)}, (int) i);
% endfor
            }
            ${carry(parts.module.pairwise(f"merge{width}", [f"closed{width}(s{u}, length, index + {u * width}, {width * unroll})" for u in range(unroll)]), f"tuple{width}", f"merge{width}")}
        }
        if (count >= ${width}) {
            ${run(width, "rest", width)}
            ${carry("rest", f"tuple{width}", f"merge{width}")}
        }
        ${total(f"v{width}", f"tuple{width}", f"merge{width}")}
% else:
        tuple${width} v${width};
        {
            ${run(width, f"v{width}", width, declared=True)}
        }
% endif
<% half = width // 2 %>
% while half:
        tuple${half} v${half} = merge${half}(low${2 * half}(v${2 * half}), high${2 * half}(v${2 * half}));
        if (count & ${half}) {
            v${half} = merge${half}(v${half}, ${one(half)});
            ${advance(half)};
            index += ${half};
        }
<%  half //= 2 %>
% endwhile
        return v1;
    }
% elif unroll:
    if (count >= ${unroll * chain}) {
        for (; count >= ${unroll * chain}; count -= ${unroll * chain}, index += ${unroll * chain}, ${advance(f"{unroll * chain} * step")}) {
% for u in range(unroll):
            run1 s${u} = start1(${elements(f"{u * chain} * step")});
% endfor
            for (int i = 1; i < ${chain}; ++i) {
% for u in range(unroll):
                s${u} = extend1(s${u}, ${elements(f"({u * chain} + i) * step")}, i);
% endfor
            }
            ${carry(parts.module.pairwise("merge1", [f"closed1(s{u}, {chain}, index + {u * chain}, 1)" for u in range(unroll)]), "tuple1", "merge1")}
        }
        if (count) {
            ${run(1, "rest", "step")}
            ${carry("rest", "tuple1", "merge1")}
        }
        ${total("v1", "tuple1", "merge1")}
        return v1;
    }
% endif
    ${run(1, "sum", "step")}
    return sum;
}
% elif not fixed:
static ${accumulator} folded(global const ${source}* restrict x, const long step, long count) {
% if unroll:
    ${held} levels[48];
    long chunks = 0;
% endif
% if width:
    if (count >= ${width}) {
% if unroll:
        for (long length; count >= ${width * unroll}; count -= length * ${width * unroll}) {
            length = min(${chain}L, count / ${width * unroll});
% for u in range(unroll):
            ${narrow} s${u} = ${narrow_convert}(LOAD${width}(x + ${u * width}));
% endfor
            x += ${width * unroll};
            for (long i = 1; i < length; ++i, x += ${width * unroll}) {
% if prefetch:
                ${memory.ahead("x", width * unroll * source_bytes)}
% endif
% for u in range(unroll):
                s${u} = narrow_combine${width}(s${u}, ${narrow_convert}(LOAD${width}(x + ${u * width})));
% endfor
            }
            ${carry(f"{wide_convert}({chunk})", held, joined)}
        }
        if (count >= ${width}) {
            ${wide} rest;
            ${vectors("rest")}
            ${carry("rest", held, joined)}
        }
        ${total(f"v{width}", held, joined)}
% else:
        ${wide} v${width};
        ${vectors(f"v{width}")}
% endif
<% half = width // 2 %>
% while half:
<%  suffix = "" if half == 1 else half %>
        ${accumulator}${suffix} v${half} = ${"combine" if half == 1 else f"wide_combine{half}"}(v${2 * half}.lo, v${2 * half}.hi);
        if (count & ${half}) {
% if half == 1:
            v1 = combine(v1, converted(x[0]));
% else:
            v${half} = wide_combine${half}(v${half}, convert_${accumulator}${half}(LOAD${half}(x)));
            x += ${half};
% endif
        }
<%  half //= 2 %>
% endwhile
        return v1;
    }
% elif unroll:
    if (count >= ${unroll * chain}) {
        for (; count >= ${unroll * chain}; count -= ${unroll * chain}, x += ${unroll * chain} * step) {
% for u in range(unroll):
            ${accumulator} s${u} = converted(x[${u * chain} * step]);
% endfor
## Intel's compiler crashes when it vectorizes this loop for some operators (see pydp/runtime/device/quirks.py).
            _Pragma("clang loop vectorize(disable)")
            for (int i = 1; i < ${chain}; ++i) {
% for u in range(unroll):
                s${u} = combine(s${u}, converted(x[(${u * chain} + i) * step]));
% endfor
            }
            ${carry(chunk, held, joined)}
        }
        if (count) {
            ${accumulator} rest = converted(x[0]);
            for (long i = 1; i < count; ++i) rest = combine(rest, converted(x[i * step]));
            ${carry("rest", held, joined)}
        }
        ${total("v1", held, joined)}
        return v1;
    }
% endif
    ${accumulator} sum = converted(x[0]);
    for (long i = 1; i < count; ++i) sum = combine(sum, converted(x[i * step]));
    return sum;
}
% endif

% if joins:
${lookback.functions(accumulator)}
% endif
kernel ${one_lane} void reduce_rows(global const ${source}* restrict x, const ulong offset, const long step, const ulong ${"capacity" if bounded else "n"},
                        const ulong part, const ulong rows, global ${target if hook else accumulator}* restrict result, const ulong each
% if joins:
                        , volatile global uint* state, const uint tag
% endif
                        ${parts.arguments(outer_dims, initial, accumulator)}${hooks.arguments(hook, bool(hook["second"]), last) if hook else ""}${parts.limit_arguments(bounded)}) {
    ${parts.limit(bounded)}
    const ulong turns = (rows + each - 1) / each;
    const ulong first = get_global_id(0) % turns * each;
    const ulong start = get_global_id(0) / turns * part;
% if bounded:
    if (start >= n) {
% if empty:
        if (start == 0) result[0] = ${empty};
% endif
        return;
    }
% endif
    const long count = (long) min(part, n - start);
    x += (long) offset + (long) start * step;
    result += get_global_id(0) / turns * rows;
% if hook and hook["second"]:
    y += (long) y_offset + (long) start * step;
% endif
% if fixed:
    x += first * ${fixed};
    result += first;
    long left = (long) min(each, rows - first);
% if width:
    for (; left >= ${width}; left -= ${width}, x += ${width * fixed}, result += ${width}) {
% for place, size in blocks:
        ${transposed(place, size)}
% endfor
        ${wide} sum = b${blocks[0][0]};
% for place, size in blocks[1:]:
        sum = wide_combine${width}(sum, b${place});
% endfor
        RESULTS${width}(result) = ${f"wide_combine{width}(({wide}) (initial[initial_offset]), sum)" if initial else "sum"};
    }
% endif
    for (long row = 0; row < left; ++row) {
% for place, size in blocks:
        const ${accumulator} b${place} = ${parts.module.pairwise("combine", [f"converted(x[row * {fixed} + {place + i}])" for i in range(size)])};
% endfor
        ${accumulator} sum = b${blocks[0][0]};
% for place, size in blocks[1:]:
        sum = combine(sum, b${place});
% endfor
        result[row] = ${parts.seeded(initial, "sum")};
    }
% else:
% if several:
    for (ulong row = first; row < min(first + each, rows); ++row) {
% else:
    {
        const ulong row = first;
% endif
        ${parts.address("row", outer_dims)}
% if hook:
        const tuple1 sum = folded(x + row_start, ${"y + row_start, " if hook["second"] else ""}step, count, (long) start);
        ${hooks.store(hook, last, "row", "sum", bounded)}
% else:
        ${accumulator} sum = folded(x + row_start, step, count);
% endif
% if hook:
% elif joins:
        const int items = (int) ${"((n + part - 1) / part)" if bounded else "get_global_size(0)"};
        publish(state, tag, (int) get_global_id(0), AGGREGATE, sum);
        if (take_partition(state, items) < items - 1) return;
% else:
        result[row] = ${parts.seeded(initial, "sum")};
% endif
    }
% if joins:
    result -= get_global_id(0) / turns * rows;
    for (int row = 0; row < (int) rows; ++row) {
        ${accumulator} levels[32], found;
        int chunks = 0;
        for (int p = row; p < (int) ${"((n + part - 1) / part)" if bounded else "get_global_size(0)"}; p += (int) rows) {
            while (!peek_surely(state, tag, p, AGGREGATE, &found)) {}
            ${carry("found", accumulator, "combine")}
        }
        ${total("sum", accumulator, "combine")}
        result[row] = ${parts.seeded(initial, "sum")};
    }
% endif
% endif
}
