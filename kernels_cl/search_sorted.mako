## Binary searches of many values v in a sorted array a: the position where each value would be inserted, or whether a
## contains it.
## All searches of an array take the same number of steps, and a step has no branch: several searches are interleaved, so
## that the cache misses of one search overlap with those of the others. For numbers on CPUs ("vector"), the searches are
## the lanes of vectors of 16.
## Launch: one work-item for each `part` adjacent values (1 on GPUs). No local memory, no barrier.
## Parameters: declarations, key (C type that is compared), ordering (see sort_order), a, v (C types of the elements),
## convert_a, convert_v (C expressions that convert x to the key), index (int or long: type of positions), sorter (C type
## of the indexes that sort a, or None), a_unit, v_unit, sorter_unit (stride 1), right (after equal elements, not before
## them), part, chains (interleaved searches), vectors (their number, 0 without), signed
## (integer C type of the key's size), is_float, found (the result is whether a contains the value, uchar), inverted,
## equal (the C function `int differ(key, key)`, with `found`), heads (the values are sorted; the result is 0 for a value
## that equals its predecessor), new_run (the C function `int new_run(v, v)`, with `heads`).
<%namespace name="order" file="sort_order.mako"/>
${declarations}
typedef ${key} KEY;
typedef ${index} INDEX;
% if vectors:
typedef ${key}16 KEY16;
typedef ${signed}16 SIGNED16;
typedef ${index}16 INDEX16;
#define CONVERT convert_${index}16
% endif
${order.less(key, ordering)}
${equal}
${new_run}
static KEY key_of_a(const ${a} x) { return ${convert_a}; }
static KEY key_of_v(const ${v} x) { return ${convert_v}; }
<%
    def step(name, unit):
        return "" if unit else f" * {name}"
%>
% if sorter:
## An index outside of the array must not make the kernel read outside of it.
#define A_AT(i) key_of_a(a[clamp((long) sorter[(long) (i)${step("sorter_step", sorter_unit)}], 0L, n - 1)${step("a_step", a_unit)}])
% else:
#define A_AT(i) key_of_a(a[(long) (i)${step("a_step", a_unit)}])
% endif
#define V_AT(i) v[(i)${step("v_step", v_unit)}]

/* Whether the value is inserted after the element. */
static int after(const KEY element, const KEY value) {
    return ${"!less(value, element)" if right else "less(element, value)"};
}

static void store(global ${"uchar" if found else "long"}* out, const long i, const INDEX position, const KEY value,
                  global const ${a}* a, const long a_step, const long n, global const ${v}* v, const long v_step
% if sorter:
                  , global const ${sorter}* sorter, const long sorter_step
% endif
                  ) {
% if found:
    int result = 0;
    if (position < n) result = !differ(A_AT(position), value);
% if inverted:
    result = !result;
% endif
% if heads:
    if (i && !new_run(V_AT(i - 1), V_AT(i))) result = 0;
% endif
    out[i] = (uchar) result;
% else:
    out[i] = (long) position;
% endif
}

kernel void search_sorted(global const ${a}* restrict a, const long a_at, const long a_step, const long n,
% if sorter:
                          global const ${sorter}* restrict sorter, const long sorter_at, const long sorter_step,
% endif
                          global const ${v}* restrict v, const long v_at, const long v_step,
                          global ${"uchar" if found else "long"}* restrict out, const long out_at, const long count) {
    a += a_at;
    v += v_at;
    out += out_at;
% if sorter:
    sorter += sorter_at;
% endif
    const long first = (long) get_global_id(0) * ${part};
    const long end = min(first + ${part}, count);
    for (long block = first; block < end; block += ${chains}) {
% if vectors:
        KEY values[${chains}];
        INDEX positions[${chains}];
        for (int c = 0; c < ${chains}; ++c) values[c] = key_of_v(V_AT(min(block + c, count - 1)));
% for k in range(vectors):
        const KEY16 value${k} = vload16(${k}, values);
% if is_float:
        const SIGNED16 nan${k} = value${k} != value${k};
% endif
        INDEX16 position${k} = 0;
% endfor
        for (INDEX left = (INDEX) n; left > 0;) {
            /* The last step looks at one element. */
            const INDEX half_size = left > 1 ? left >> 1 : 1;
% for k in range(vectors):
            {
                const INDEX16 at = position${k} + (half_size - 1);
                const KEY16 element = (KEY16)(${", ".join(f"A_AT(at.s{lane:x})" for lane in range(16))});
% if is_float:
<%
                less = f"(element < value{k}) | ((element == element) & nan{k})"
                more = f"(value{k} < element) | ((element != element) & ~nan{k})"
%>
% else:
<% less, more = f"element < value{k}", f"value{k} < element" %>
% endif
<% less, more = (more, less) if ordering["descending"] else (less, more) %>
                const SIGNED16 passed = ${f"~({more})" if right else less};
                position${k} += CONVERT(passed) & half_size;
            }
% endfor
            left = left > 1 ? left - half_size : 0;
        }
% for k in range(vectors):
        vstore16(position${k}, ${k}, positions);
% endfor
        const int stored = (int) min((long) ${chains}, end - block);
        for (int c = 0; c < stored; ++c)
            store(out, block + c, positions[c], values[c], a, a_step, n, v, v_step${", sorter, sorter_step" if sorter else ""});
% else:
% for c in range(chains):
        const KEY value${c} = key_of_v(V_AT(min(block + ${c}, count - 1)));
        INDEX position${c} = 0;
% endfor
        for (INDEX left = (INDEX) n; left > 0;) {
            const INDEX half_size = left > 1 ? left >> 1 : 1;
% for c in range(chains):
## Not by a mask of the result: for conditions that depend on the value alone, one driver took the value of another
## work-item.
            position${c} = select(position${c}, position${c} + half_size,
                                  (INDEX) after(A_AT(position${c} + (half_size - 1)), value${c}) ? (INDEX) -1 : (INDEX) 0);
% endfor
            left = left > 1 ? left - half_size : 0;
        }
% for c in range(chains):
        if (block + ${c} < end)
            store(out, block + ${c}, position${c}, value${c}, a, a_step, n, v, v_step${", sorter, sorter_step" if sorter else ""});
% endfor
% endif
    }
}
