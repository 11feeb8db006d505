## Scan along an axis with adjacent columns: a work-item scans a strip of columns, or a block of rows of a strip.
## A strip of `width` columns is scanned as one value: its pieces are vectors (or scalars), each with its own prefix.
## Strips of all slabs are numbered as chains. Partition p is block p / chains of chain p % chains; only the blocks of
## one chain wait for each other, as the partitions of scan_vector.mako do.
## Launch: "alone" (one block per chain): one work-item for each `share` chains, in whole work-groups; "single": one
## work-group of one work-item per partition; else one work-item per partition, in whole work-groups.
## Element k of column c of slab o is at offset + o * outer + k * step + c (for x, y and h).
## Parameters: see scan_common (rows and nested False, units 0) and wg_lookback; phase, exclusive, start_value, keeps and
## nontemporal as in scan_vector; vector (elements of a piece, 0: scalar), pieces, width (columns of a strip), whole (all
## strips have `width` columns; else the last pieces of a strip may overlap: they compute the same values twice),
## ahead (rows that are loaded before the first of them is scanned, if a strip is one piece), combine_vector,
## convert_vector, head_bytes (flags of the pieces, filled up to a whole word of a slot).
<%namespace name="common" file="scan_common.mako"/>
<%namespace name="lookback" file="wg_lookback.mako"/>
<%
    lanes = vector or 1
    has_heads = heads != "none"
    unrolled = pieces <= 32
    arguments = (
        "x, x_step, " + ("mark, h_step, " if has_heads else "") + "count"
        + {"none": "", "value": ", init_value", "buffer": ", init_buffer, init_offset"}[init]
    )
    fold = "acc.v[$I] = combine_vector(acc.v[$I], $V);"
    step = f"STORE(acc.v[$I], to, $I); {fold}" if exclusive else f"{fold} STORE(acc.v[$I], to, $I);"
    fresh = "k == 0 || IS_HEAD(k, $I)"  # acc has no value, or another segment's
    if heads_init:
        headed_step = f"if ({fresh}) acc.v[$I] = INIT; {step.replace('$V', 'v[$I]')}"
    elif exclusive:
        headed_step = f"if ({fresh}) {{ STORE({start_value}, to, $I); acc.v[$I] = v[$I]; }} else {{ {step.replace('$V', 'v[$I]')} }}"
    else:
        headed_step = f"if ({fresh}) acc.v[$I] = v[$I]; else {fold.replace('$V', 'v[$I]')} STORE(acc.v[$I], to, $I);"
%>
${common.prelude()}
static VALUE converted(const SOURCE x) { return ${convert}; }
% if init == "value":
#define INIT init_value
% elif init == "buffer":
#define INIT init_buffer[init_offset]
% endif
#define AT(i) ${f"((i) * {lanes})" if whole else f"min((i) * {lanes}, count - {lanes})"}
% if vector:
typedef ${value}${vector} PIECE;
#define SPREAD(v) ((PIECE) (v))
${combine_vector}
#define LOAD(from, i) ${convert_vector.replace("$X", f"vload{vector}(0, (from) + AT(i))")}
#define LOAD_VALUES(from, i) vload${vector}(0, (from) + AT(i))
#define STORE_VALUES(v, to, i) vstore${vector}(v, 0, (to) + AT(i))
% else:
typedef VALUE PIECE;
#define SPREAD(v) (v)
#define combine_vector combine
#define LOAD(from, i) converted((from)[AT(i)])
#define LOAD_VALUES(from, i) (from)[AT(i)]
#define STORE_VALUES(v, to, i) (to)[AT(i)] = (v)
% endif
% if nontemporal:
#define STORE(v, to, i) \
    if (aligned) __builtin_nontemporal_store(v, (global PIECE*) ((to) + AT(i))); else STORE_VALUES(v, to, i)
% else:
#define STORE(v, to, i) STORE_VALUES(v, to, i)
% endif
% if heads == "flags":
#define IS_HEAD(k, i) (mark[(k) * h_step + AT(i)] != 0)
% elif heads == "keys":
#define IS_HEAD(k, i) ((k) > 0 && mark[(k) * h_step + AT(i)] != mark[((k) - 1) * h_step + AT(i)])
% endif
## head: a segment starts in this column.
typedef struct {
    PIECE v[${pieces}];
% if has_heads:
    uchar head[${head_bytes}];
% endif
} STRIP;
##
## One statement for every piece; $I is its index.
<%def name="each_piece(statement)">
% if unrolled:
%   for i in range(pieces):
    ${statement.replace("$I", str(i))}
%   endfor
% else:
    for (int i = 0; i < ${pieces}; ++i) { ${statement.replace("$I", "i")} }
% endif
</%def>
##
<%def name="inputs()">
global const SOURCE* x, const long x_step,
% if has_heads:
global const HEAD* mark, const long h_step,
% endif
const int count${init_parameters()}
</%def>
##
<%def name="init_parameters()">
% if init == "value":
    , const VALUE init_value
% elif init == "buffer":
    , global const VALUE* init_buffer, const long init_offset
% endif
</%def>
% if phase != "alone":

static STRIP combine_strips(STRIP a, const STRIP b) {
% if has_heads:
    ${each_piece("if (b.head[$I]) { a.v[$I] = b.v[$I]; a.head[$I] = 1; } else a.v[$I] = combine(a.v[$I], b.v[$I]);")}
% else:
    ${each_piece("a.v[$I] = combine_vector(a.v[$I], b.v[$I]);")}
% endif
    return a;
}

/* Folds rows begin .. end - 1: each column after its last head. Block 0 starts with init. */
static STRIP aggregate(${inputs()}, const long begin, const long end) {
    STRIP sum;
    global const SOURCE* from = x + begin * x_step;
    ${each_piece("sum.v[$I] = LOAD(from, $I);")}
% if has_heads:
    ${each_piece("sum.head[$I] = IS_HEAD(begin, $I);")}
    for (int i = ${pieces}; i < ${head_bytes}; ++i) sum.head[i] = 0; /* published with the last word */
%   if heads_init:
    ${each_piece("if (sum.head[$I] || begin == 0) sum.v[$I] = combine(INIT, sum.v[$I]);")}
%   endif
% elif heads_init:
    if (begin == 0) {
        ${each_piece("sum.v[$I] = combine_vector(SPREAD(INIT), sum.v[$I]);")}
    }
% endif
    for (long k = begin + 1; k < end; ++k) {
        from += x_step;
% if has_heads:
        ${each_piece(
            "const VALUE v$I = LOAD(from, $I); if (IS_HEAD(k, $I)) { sum.head[$I] = 1; sum.v[$I] = "
            + ("combine(INIT, v$I)" if heads_init else "v$I") + "; } else sum.v[$I] = combine(sum.v[$I], v$I);"
        )}
% else:
        ${each_piece("sum.v[$I] = combine_vector(sum.v[$I], LOAD(from, $I));")}
% endif
    }
    return sum;
}
% endif
% if phase == "single":
${lookback.functions("STRIP", keeps)}
/* The aggregate of a partition whose owner has not published it. Returns 1 if it is the inclusive prefix. */
static int recompute(${inputs()}, const long block, const long part, STRIP* sum) {
    *sum = aggregate(${arguments}, block * part, (block + 1) * part);
    return block == 0;
}
% endif

kernel void scan(
    global const SOURCE* x_base, const long x_offset, const long x_step, const long x_outer,
% if has_heads:
    global const HEAD* h_base, const long h_offset, const long h_step, const long h_outer,
% endif
    const long n, const long columns, const int strips, const int chains, const long part,
    const int ${"share" if phase == "alone" else "blocks"}${init_parameters()},
% if phase == "reduce":
    global VALUE* aggregates, global uchar* partition_heads
% else:
    global VALUE* y_base, const long y_offset, const long y_step, const long y_outer
%   if phase == "single":
    , volatile global uint* state, const uint tag, const int parts
%   elif phase == "seeded":
    , global const VALUE* seeds
%   endif
% endif
) {
% if phase == "alone":
    const int first_chain = (int) get_global_id(0) * share;
    const int last_chain = min(first_chain + share, chains);
    const long block = 0;
    for (int chain = first_chain; chain < last_chain; ++chain) {
% else:
    const int p = ${"take_partition(state, parts)" if phase == "single" else "(int) get_global_id(0)"};
    const long block = p / chains;
    if (block < blocks) {
        const int chain = p % chains;
% endif
        const long slab = chain / strips;
        const int strip = chain % strips;
        /* Every strip has at least one piece. */
        const long first = ${f"(long) strip * {width}" if whole else f"min((long) strip * {width}, columns - {lanes})"};
        const long next = strip == strips - 1 ? columns : min((long) (strip + 1) * ${width}, columns - ${lanes});
        const int count = ${width if whole else "(int) (next - first)"};
        const long begin = block * part, end = min(begin + part, n);
        global const SOURCE* x = x_base + x_offset + slab * x_outer + first;
% if has_heads:
        global const HEAD* mark = h_base + h_offset + slab * h_outer + first;
% endif
% if phase != "alone":
        const long row_of_block = (slab * blocks + block) * columns + first;
% endif
% if phase == "reduce":
        const STRIP sum = aggregate(${arguments}, begin, end);
        ${each_piece("STORE_VALUES(sum.v[$I], aggregates + row_of_block, $I);")}
%   if has_heads:
        ${each_piece("partition_heads[row_of_block + AT($I)] = sum.head[$I];")}
%   endif
    }
% else:
        global VALUE* y = y_base + y_offset + slab * y_outer + first;
        STRIP acc;
%   if phase == "seeded":
        if (block > 0) {
            ${each_piece("acc.v[$I] = LOAD_VALUES(seeds + row_of_block - columns, $I);")}
        }
%   elif phase == "single":
        STRIP sum;
        if (block < blocks - 1) {
            sum = aggregate(${arguments}, begin, end);
            if (block == 0) {
                ${lookback.announce("p", "PREFIX", "sum")}
%     if not chained:
            } else {
                ${lookback.announce("p", "AGGREGATE", "sum")}
%     endif
            }
%     if keeps:
            /* Never returns here. The condition makes the stores below wait until the aggregate is kept. */
            if (keep(state, tag, p, block == 0 ? PREFIX : AGGREGATE, sum)) return;
%     endif
        }
        if (block > 0) {
            ${lookback.look_back(
                "p", "acc", f"recompute({arguments}, back / chains, part, &found)", keeps, value="STRIP",
                combine="combine_strips", step="chains",
            )}
            if (block < blocks - 1) {
                sum = combine_strips(acc, sum);
                ${lookback.announce("p", "PREFIX", "sum")}
            }
        }
%   endif
%   if nontemporal:
        const int aligned = ((ulong) y & (sizeof(PIECE) - 1)) == 0;
%   endif
        long k = begin;
        global const SOURCE* from = x + begin * x_step;
        global VALUE* to = y + begin * y_step;
%   if heads_init and not has_heads:
        if (block == 0) {
            ${each_piece("acc.v[$I] = SPREAD(INIT);")}
        }
%   elif not has_heads:
        if (block == 0) {
            ${each_piece("acc.v[$I] = LOAD(from, $I);")}
            ${each_piece(f"STORE({f'SPREAD({start_value})' if exclusive and start_value else 'acc.v[$I]'}, to, $I);")}
            ++k;
            from += x_step;
            to += y_step;
        }
%   endif
%   if ahead > 1 and pieces == 1 and not has_heads:
        for (; k + ${ahead - 1} < end; k += ${ahead}, from += ${ahead} * x_step, to += ${ahead} * y_step) {
%     for row in range(ahead):
            const PIECE v_${row} = LOAD(from + ${row} * x_step, 0);
%     endfor
%     for row in range(ahead):
            { ${step.replace("$V", f"v_{row}").replace(", to,", f", to + {row} * y_step,").replace("$I", "0")} }
%     endfor
        }
%   endif
        for (; k < end; ++k, from += x_step, to += y_step) {
%   if has_heads:
            PIECE v[${pieces}];
            ${each_piece("v[$I] = LOAD(from, $I);")}
            ${each_piece(headed_step)}
%   elif whole:
            ${each_piece(f"{{ const PIECE v = LOAD(from, $I); {step.replace('$V', 'v')} }}")}
%   else:
            PIECE v[${pieces}];
            ${each_piece("v[$I] = LOAD(from, $I);")}
            ${each_piece(step.replace("$V", "v[$I]"))}
%   endif
        }
    }
% endif
}
