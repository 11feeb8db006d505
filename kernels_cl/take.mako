## Gather: out[o, j, k] = source[o, index(j), k], with an index for each j. Elements are copied as words.
##
## Launch: "vector": one work-group of one work-item for each `part_of_rows` rows (o, j). "simt": one work-item per word, padded
## to whole work-groups. No local memory, no barrier.
##
## Parameters: word (C type of the words) · index (C type of the indexes) · mode: "plain" (all indexes are in range),
## "negative" (from -size to size - 1), "wrap" (modulo size), "clip" · mapping · wide (words of a vector) · rows_only (a row has one word) ·
## outer (there is more than one o) · unit (the words of a row are next to each other).
<%
    place = "" if unit else " * inner_step"
%>\
/* The position of index i. Negative indexes are negated in their own type: one driver assumes that a long converted from
   an int is not negative. */
static long row_of(const ${index} i, const long size)
{
% if mode == "plain":
    return i;
% elif mode == "clip":
    return i < 0 ? 0 : i >= size ? size - 1 : i;
% else:
    if (i < 0) {
        const ulong below = (u${index}) ((u${index}) 0 - (u${index}) i); /* 2^63 for the least long */
%   if mode == "negative":
        return size - (long) below;
%   else:
        const long rest = (long) (below % (ulong) size);
        return rest ? size - rest : 0;
%   endif
    }
    return ${"i" if mode == "negative" else "i < size ? i : i % size"};
% endif
}

kernel void take_rows(global ${word}* out_base, const long out_at, global const ${word}* source_base, const long source_at,
                      global const ${index}* indexes_base, const long indexes_at, const long count, const long rows,
                      const long size, const long inner, const long outer_step, const long step, const long inner_step${", const long part_of_rows" if mapping == "vector" else ""})
{
    global ${word}* const out = out_base + out_at;
    global const ${word}* const source = source_base + source_at;
    global const ${index}* const indexes = indexes_base + indexes_at;
% if mapping == "simt":
    const long at = get_global_id(0);
    if (at < rows * inner) {
        const long row = ${"at" if rows_only else "at / inner"};
        const long ${"o = row / count, j = row - o * count" if outer else "j = row"};
        const long k = ${"0" if rows_only else "at - row * inner"};
        out[at] = source[${"o * outer_step + " if outer else ""}row_of(indexes[j], size) * step + k * inner_step];
    }
% else:
    const long begin = (long) get_group_id(0) * part_of_rows;
    const long end = min(begin + part_of_rows, rows);
% if outer:
    long o = begin / count, j = begin - o * count;
    for (long row = begin; row < end; ) {
        const long some = min(end - row, count - j);
        global const ${word}* const from = source + o * outer_step;
        ${some_rows("row", "some")}
        row += some;
        j = 0;
        ++o;
    }
% else:
    global const ${word}* const from = source;
    const long j = begin, some = end - begin;
    ${some_rows("begin", "some")}
% endif
% endif
}
##
## Copies rows row .. row + some - 1 of the result, whose indexes start at j.
<%def name="some_rows(row, some)">
% if rows_only:
        long n = 0;
        for (; n + 8 <= ${some}; n += 8) { /* eight loads in flight, one store */
            global const ${index}* const eight = indexes + j + n;
%   for k in range(8):
            const ${word} w${k} = from[row_of(eight[${k}], size) * step];
%   endfor
            vstore8((${word}8) (${", ".join(f"w{k}" for k in range(8))}), 0, out + ${row} + n);
        }
        for (; n < ${some}; ++n) out[${row} + n] = from[row_of(indexes[j + n], size) * step];
% else:
        for (long n = 0; n < ${some}; ++n) {
            global const ${word}* const words = from + row_of(indexes[j + n], size) * step;
            global ${word}* const to = out + (${row} + n) * inner;
            long k = 0;
% if unit and wide > 1:
            for (; k + ${wide} <= inner; k += ${wide}) vstore${wide}(vload${wide}(0, words + k), 0, to + k);
% endif
            for (; k < inner; ++k) to[k] = words[k${place}];
        }
% endif
</%def>
