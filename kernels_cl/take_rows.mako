## Takes elements of each row by their indexes: out[row, j] = x[row, indexes[row, j]].
## x may have any row and element stride. A row of the indexes has `indexes_width` elements, of which the first `width`
## are used. The result is contiguous. Indexes are clipped to the row.
## Launch: one work-item for each element of the result. No local memory, no barrier.
## Parameters: declarations, word (C type of an element), index (C type of an index).
${declarations}
kernel void take_rows(global const ${word}* restrict x, const long x_at, const long row_step, const long step,
                      global const ${index}* restrict indexes, const long indexes_at, const long indexes_width,
                      global ${word}* restrict out, const long out_at, const long n, const long width,
                      const long count) {
    const long at = (long) get_global_id(0);
    if (at < count) {
        const long row = at / width, j = at % width;
        const long taken = clamp((long) indexes[indexes_at + row * indexes_width + j], 0L, n - 1);
        out[out_at + at] = x[x_at + row * row_step + taken * step];
    }
}
