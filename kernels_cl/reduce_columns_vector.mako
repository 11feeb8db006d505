## Folds along an axis with adjacent columns (CPU mapping): each work-item folds a block of columns, in order.
## Phases, for each outer row: the first row of elements initializes the results; then `unroll` rows at a time are
## combined with each other, pairwise, and with the results, which stay in the cache. Whole vectors, then single
## columns.
## Launch: one work-item for `block` columns of `each` outer rows of a part; blocks vary fastest, then outer rows.
## Results are stored as (parts, outer rows, columns). The last part may have one more row, of `ragged` columns.
## Parameters: declarations, source, accumulator (C types), convert (C expression of x), unit (columns have stride 1),
## unroll (rows of an iteration, a power of two), source_bytes, prefetch (the rows of the next iteration are fetched),
## outer_dims (axes of the outer rows), initial (there is a first value),
##   operator, width, narrow, narrow_convert, wide, wide_convert (see reduce_parts.mako; width 0: no vectors);
##   hook (see reduce_hooks.mako; None: none; else narrow and the two conversions are not used), and if there is one,
##   last (this is the last pass), target (C type of the results), most (the largest `block`), second_bytes (of an
##   element of the second input). With a hook, runs of `unroll` rows are closed, and the accumulators of the block are
##   in private memory.
<%namespace name="parts" file="reduce_parts.mako"/>
<%namespace name="hooks" file="reduce_hooks.mako"/>
<%namespace name="memory" file="prefetch.mako"/>
<%def name="fold(count, rows, first=False)">
<%
    element = "c" if unit else "c * column_step"
    vectors = [f"{narrow_convert}(LOAD{width}(x + {r} * step + c))" for r in range(rows)]
    elements = [f"converted(x[{r} * step + {element}])" for r in range(rows)]
%>
                long c = 0;
% if width:
%   if prefetch and not first:
                global const ${source}* const next = x + (i + ${2 * rows} <= length ? ${rows} * step : 0L);
%   endif
                for (; c + ${width} <= ${count}; c += ${width}) {
%   if prefetch and not first:
%     for r in range(rows):
                    ${memory.lines(f"next + {r} * step + c", width * source_bytes)}
%     endfor
%   endif
                    const ${wide} v = ${wide_convert}(${parts.module.pairwise(f"narrow_combine{width}", vectors)});
% if not first:
                    RESULTS${width}(to + c) = wide_combine${width}(RESULTS${width}(to + c), v);
% elif initial:
                    RESULTS${width}(to + c) = wide_combine${width}((${wide}) (initial[initial_offset]), v);
% else:
                    RESULTS${width}(to + c) = v;
% endif
                }
% endif
                for (; c < ${count}; ++c) {
                    const ${accumulator} v = ${parts.module.pairwise("combine", elements)};
                    to[c] = ${parts.seeded(initial, "v") if first else "combine(to[c], v)"};
                }
</%def>
${declarations}
${operator}
% if hook:
<% second = bool(hook["second"]) %>
${parts.loads(source, width)}
% if second:
${parts.loads(hook["second"], width, "SECOND", "second")}
% endif
${hooks.functions(hook, [width] if width else [], False, last)}
% else:
${parts.functions(source, accumulator, convert)}
${parts.vectors(source, accumulator, width)}
% endif

kernel ${one_lane} void reduce_columns(global const ${source}* restrict x, const ulong offset, const long step, const ulong n,
                           const ulong part, const ulong rows, global ${target if hook else accumulator}* restrict result,
                           const ulong columns, const long column_step, const ulong block, const ulong each,
                           const ulong ragged${parts.arguments(outer_dims, initial, accumulator)}${hooks.arguments(hook, second, last) if hook else ""}) {
    const ulong blocks = (columns + block - 1) / block, turns = (rows + each - 1) / each;
    const ulong above = get_global_id(0) / blocks;
    const ulong column = get_global_id(0) % blocks * block;
    const long count = (long) min(block, columns - column);
    const ulong start = above / turns * part, first = above % turns * each;
    const long length = (long) min(part, n - start);
    const long rest = start + part < n ? 0 : min(count, (long) ragged - (long) column);
    x += (long) offset + (long) start * step + (long) column * column_step;
% if hook:
% if second:
    y += (long) y_offset + (long) start * step + (long) column * column_step;
% endif
    ulong to = (above / turns * rows + first) * columns + column;
    for (ulong row = first; row < min(first + each, rows); ++row, to += columns) {
        ${parts.address("row", outer_dims)}
        global const ${source}* const origin = x;
        x += row_start;
% if second:
        global const ${hook["second"]}* const other_origin = y;
        y += row_start;
% endif
% if width:
        tuple${width} held[${-(-most // width)}];
% endif
        tuple1 single[${min(width - 1, most) if width else most}];
        for (long i = 0; i < length;) {
            const int rows_left = (int) min(${unroll}L, length - i);
            if (rows_left == ${unroll}) {
                ${runs(unroll, "i")}
            } else {
                ${runs("rows_left", "i")}
            }
            i += rows_left;
            x += rows_left * step;
% if second:
            y += rows_left * step;
% endif
        }
        long c = 0;
% if width:
        for (int v = 0; c + ${width} <= count; ++v) {
% for lane in range(width):
            {
                tuple1 sum = lane${width}_${f"{lane:x}"}(held[v]);
                ${stored("sum")}
            }
% endfor
        }
        const long whole = c;
% else:
        const long whole = 0;
% endif
        while (c < count) {
            tuple1 sum = single[c - whole];
            ${stored("sum")}
        }
        x = origin;
% if second:
        y = other_origin;
% endif
    }
% else:
    result += (above / turns * rows + first) * columns + column;
    for (ulong row = first; row < min(first + each, rows); ++row, result += columns) {
        ${parts.address("row", outer_dims)}
        global const ${source}* const origin = x;
        global ${accumulator}* const to = result;
        x += row_start;
        {
            ${fold("count", 1, first=True)}
        }
        x += step;
        long i = 1;
        for (; i + ${unroll} <= length; i += ${unroll}, x += ${unroll} * step) {
            ${fold("count", unroll)}
        }
        for (; i <= length; ++i, x += step) {
            const long whole = i < length ? count : rest;
            ${fold("whole", 1)}
        }
        x = origin;
    }
% endif
}
## Stores the accumulator of column c, after the element of the ragged row, and goes to the next column.
<%def name="stored(sum)">
<% at = "c" if unit else "c * column_step" %>
                if (c < rest)
                    ${sum} = merge1(${sum}, closed1(start1(x[${at}]${f", y[{at}]" if hook["second"] else ""}), 1, (long) start + length, 0));
                ${hooks.store(hook, last, "to + c", sum, False)}
                ++c;
</%def>
## Prefetches vectors of row k of the next run.
<%def name="ahead(k)">
% if prefetch:
                        ${memory.lines(f"x + next + {k} * step + c", width * source_bytes)}
%   if hook["second"]:
                        ${memory.lines(f"y + next + {k} * step + c", width * second_bytes)}
%   endif
% endif
</%def>
## Closes a run of `count` rows of each column.
<%def name="runs(count, first)">
<%
    element = "c" if unit else "c * column_step"
    wide = lambda k: hooks.module.element(hook, f"{k} * step + c", width)
    narrow = lambda k: hooks.module.element(hook, f"{k} * step + {element}")
%>
                long c = 0;
% if width:
%   if prefetch and count == unroll:
                const long next = ${first} + 2 * ${count} <= length ? ${count} * step : 0L;
%   endif
                for (int v = 0; c + ${width} <= count; c += ${width}, ++v) {
                    run${width} r = start${width}(${wide(0)});
                    ${ahead("0") if count == unroll else ""}
                    for (int k = 1; k < ${count}; ++k) {
                        ${ahead("k") if count == unroll else ""}
                        r = extend${width}(r, ${wide("k")}, k);
                    }
                    const tuple${width} t = closed${width}(r, ${count}, (long) start + ${first}, 1);
                    if (${first} == 0) held[v] = t; else held[v] = merge${width}(held[v], t);
                }
                const long whole = c;
% else:
                const long whole = 0;
% endif
                for (; c < count; ++c) {
                    run1 r = start1(${narrow(0)});
                    for (int k = 1; k < ${count}; ++k) r = extend1(r, ${narrow("k")}, k);
                    const tuple1 t = closed1(r, ${count}, (long) start + ${first}, 1);
                    if (${first} == 0) single[c - whole] = t; else single[c - whole] = merge1(single[c - whole], t);
                }
</%def>
