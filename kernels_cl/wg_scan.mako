## Scan of one value per lane across a work-group, by two levels of left folds: the first lane of each row folds the
## lanes of the row, lane 0 folds the rows. The first `active` lanes have a value; other lanes take no part: the
## operator receives only actual data. Every fold is a left fold, so one work-item alone can repeat it bit for bit.
## Needs local arrays lane_value[lanes + lanes / columns] and row_value[rows], and uchars lane_head, row_head of the
## same lengths. A set head means that a new segment starts there.
## `sums_exclusive` is the same for sums of integers, without heads; all lanes take part.
## Parameters of each def: lanes, columns (lanes of a row); lane: the index of this lane; active: lanes with values.
##
<%namespace name="barriers" file="wg_barrier.mako"/>
## The place of a lane's value. One place after each row is unused, against bank conflicts, but not after rows of one lane:
## Intel's compiler miscompiles vectors of stores with stride 2.
<%def name="slot(lane, columns)">${f"({lane})" if columns == 1 else f"(({lane}) + ({lane}) / {columns})"}</%def>
##
## Sets lane_value to the inclusive fold within its row (needs a barrier of rows before, one of the work-group after).
<%def name="rows_inclusive(lanes, columns, lane, active)">
    if (${lane} % ${columns} == 0 && ${lane} < ${active}) {
        const int first = ${lane};
        const int last = min(first + ${columns}, ${active}) - 1;
        VALUE sum = lane_value[${slot("first", columns)}];
        uchar head = lane_head[${slot("first", columns)}];
        for (int other = first + 1; other <= last; ++other) {
            const VALUE v = lane_value[${slot("other", columns)}];
            if (lane_head[${slot("other", columns)}]) { sum = v; head = 1; } else { sum = combine(sum, v); }
            lane_value[${slot("other", columns)}] = sum;
            lane_head[${slot("other", columns)}] = head;
        }
    }
</%def>
##
## For lane 0: sum and head (declared outside) become the fold of the whole work-group.
<%def name="group_total(lanes, columns, active, sum, head)">
    {
        const int last = min(${columns}, ${active}) - 1;
        ${sum} = lane_value[${slot("last", columns)}];
        ${head} = lane_head[${slot("last", columns)}];
    }
    for (int row = 1; row < ${lanes // columns}; ++row) {
        if (row * ${columns} < ${active}) {
            const int last = min(row * ${columns} + ${columns}, ${active}) - 1;
            const VALUE v = lane_value[${slot("last", columns)}];
            if (lane_head[${slot("last", columns)}]) { ${sum} = v; ${head} = 1; } else { ${sum} = combine(${sum}, v); }
        }
    }
</%def>
##
## For lane 0: row_value becomes the fold of all values before the row, including `before` (if `have`);
## row_head is 1 if there is such a value.
<%def name="rows_exclusive(lanes, columns, active, before, have)">
    {
        VALUE sum;
        int known = ${have};
        if (known) sum = ${before};
        for (int row = 0; row < ${lanes // columns}; ++row) {
            if (row * ${columns} < ${active}) {
                if (known) row_value[row] = sum;
                row_head[row] = (uchar) known;
                const int last = min(row * ${columns} + ${columns}, ${active}) - 1;
                const VALUE v = lane_value[${slot("last", columns)}];
                if (known && !lane_head[${slot("last", columns)}]) sum = combine(sum, v); else sum = v;
                known = 1;
            }
        }
    }
</%def>
##
## For every active lane: value and have (declared outside) become the fold of the values before the lane.
<%def name="lane_exclusive(lanes, columns, lane, value, have)">
    {
        const int row = ${lane} / ${columns};
        ${have} = row_head[row];
        if (${have}) ${value} = row_value[row];
        if (${lane} % ${columns} != 0) {
            const VALUE v = lane_value[${slot(f"{lane} - 1", columns)}];
            if (${have} && !lane_head[${slot(f"{lane} - 1", columns)}]) ${value} = combine(${value}, v); else ${value} = v;
            ${have} = 1;
        }
    }
</%def>
##
## Sets `before` to the sum of the values of earlier lanes, and `total` to the sum of all (ints, declared outside).
## Contains its barriers (lowerings: `summed`, of the lanes of a row); needs one more before the next call.
<%def name="sums_exclusive(lanes, columns, lane, value, before, total, lowerings)">
    lane_value[${slot(lane, columns)}] = ${value};
    ${barriers.synchronize("summed", lowerings, lanes)}
    if (${lane} % ${columns} == 0) {
        VALUE sum = 0;
        for (int other = ${lane}; other < ${lane} + ${columns}; ++other) {
            const VALUE v = lane_value[${slot("other", columns)}];
            lane_value[${slot("other", columns)}] = sum;
            sum += v;
        }
        row_value[${lane} / ${columns}] = sum;
    }
    ${barriers.group_barrier()}
    ${before} = lane_value[${slot(lane, columns)}];
    ${total} = 0;
    for (int row = 0; row < ${lanes // columns}; ++row) {
        if (row < ${lane} / ${columns}) ${before} += row_value[row];
        ${total} += row_value[row];
    }
</%def>
