## Memory accesses of the lanes of a strip, for pydp/lang/opencl/vector/__init__.py. No kernel here.
## Each function loops over the lanes. It is called, not inlined, and the loop is small: a body has many accesses, and
## drivers took seconds to compile inlined copies. The fast paths need no function.
## Parameters: accesses, a list of {name, kind ("load", "store", "atomic_OP", or "fetch_OP", which returns the old
##   value), space, element, member, value, width, address (integer type), form, masked, update}; maps, see `mapped`.
##   form: "strided": base and step. "vector": an address for each lane. "deinterleave": a load of every
##   `step`th element from base, by whole vectors. With `number`, the elements start at base + number; all vectors from
##   base to the end of its last sibling are in bounds. `pieces`: sizes of its swizzles. "interleave": a store of `step`
##   vectors whose elements alternate in memory.
##   "planes": adjacent elements from index `first` of an axis that is stored as `interleave_factor` planes of
##   `plane_size` elements: element e is in plane e % interleave_factor. If first is in the first plane, it loads whole vectors of each plane; otherwise it calls the function
##   `by_lane` with the indices first + lane; `iota` holds the lane numbers.
##   element: the C type pointed to; member: text after the element; value: the scalar C type moved;
##   update (atomics): C statement; PLACE and VALUE stand for the element's pointer and the lane's value. The statement
##   of fetch_OP stores the old value to VALUE.

## Vectors of adjacent elements in memory, aligned like one element: ADJACENT(float16_in_memory, address space, pointer).
## Drivers build them faster than calls of vload16 and vstore16 (Intel's by a tenth).
## Parameters: in_memory, a list of (C type of an element, number of elements).
<%def name="adjacent(in_memory)">
% for element, width in in_memory:
typedef ${element}${width} ${element}${width}_in_memory __attribute__((aligned(sizeof(${element}))));
% endfor
#define ADJACENT(type, space, pointer) (*(space type*)(pointer))
</%def>

## Stores of strips: past the caches if `past_caches` is 1 and the strip is a whole cache line, which is then not read.
## Parameters: streams, a list of (C type of an element, number of elements).
<%def name="streamed(streams)">
% for element, width in streams:
void stream_${element}${width}(__global ${element}* to, const ${element}${width} given, const int past_caches)
{
    // Two halves: one driver's compiler joins whole stores of both branches into one that goes through the caches.
    if (past_caches && (ulong)to % sizeof(given) == 0) {
        __builtin_nontemporal_store(given.lo, (__global ${element}${width // 2}*)to);
        __builtin_nontemporal_store(given.hi, (__global ${element}${width // 2}*)to + 1);
    }
    else ADJACENT(${element}${width}_in_memory, __global, to) = given;
}
% endfor
</%def>

<%def name="functions(accesses)">
% for a in accesses:
<%
    value, width, address = a["value"], a["width"], a["address"]
    vector = f"{value}{width}"
    strided = a["form"] == "strided"
    where = f"const {address} base, const {address} step" if strided else f"const {address}{width} at"
    place = f"base + lane * step" if strided else "place[lane]"
    cell = f"p[{place}]{a['member']}"
    mask = f", const int{width} mask" if a["masked"] else ""
    test = "if (on[lane]) " if a["masked"] else ""
%>\
% if a["form"] == "deinterleave":
${deinterleave_load(a, vector)}
% elif a["form"] == "interleave":
${interleave_store(a, vector)}
% elif a["form"] == "planes":
${plane_access(a, vector)}
% else:
% if a["kind"] == "load":
__attribute__((noinline)) static ${vector} ${a["name"]}(${a["space"]} const ${a["element"]}* p, ${where}${mask}${f", const {value} fill" if a["masked"] else ""}) {
    ${value} got[${width}] __attribute__((aligned(64)));
% else:
__attribute__((noinline)) static ${vector if a["kind"].startswith("fetch") else "void"} ${a["name"]}(${a["space"]} ${a["element"]}* p, ${where}, const ${vector} given${mask}) {
    ${value} got[${width}] __attribute__((aligned(64)));
    ADJACENT(${vector}_in_memory, __private, got) = given;
% endif
% if not strided:
    ${address} place[${width}] __attribute__((aligned(64)));
    ADJACENT(${address}${width}_in_memory, __private, place) = at;
% endif
% if a["masked"]:
    int on[${width}] __attribute__((aligned(64)));
    ADJACENT(int${width}_in_memory, __private, on) = mask;
% endif
    __attribute__((opencl_unroll_hint(1)))
    for (int lane = 0; lane < ${width}; lane++) {
% if a["kind"] == "load":
% if a["masked"]:
        got[lane] = on[lane] ? ${cell} : fill;
% else:
        got[lane] = ${cell};
% endif
% elif a["kind"] == "store":
        ${test}${cell} = got[lane];
% elif a["kind"].startswith("fetch") and a["masked"]:
        if (on[lane]) { ${a["update"].replace("PLACE", "(p + " + place + ")").replace("VALUE", "got[lane]")} } else got[lane] = 0;
% else:
        ${test}{ ${a["update"].replace("PLACE", "(p + " + place + ")").replace("VALUE", "got[lane]")} }
% endif
    }
% if a["kind"] == "load" or a["kind"].startswith("fetch"):
    return ADJACENT(${vector}_in_memory, __private, got);
% endif
}
% endif
% endfor
</%def>

## Every Nth element, extracted from as few vectors as possible.
<%def name="deinterleave_load(a, vector)">
<%
    width, step, number = a["width"], a["step"], a.get("number", 0)
    places = [number + step * lane for lane in range(width)]
    ## If siblings are unknown, the last vector ends with the last required element (to stay in bounds).
    end = step * width if "number" in a else places[-1] + 1
    starts = {place // width: min(place // width * width, end - width) for place in places}
    parts = []
    for n in starts:
        wanted = [place - starts[n] for place in places if place // width == n]
        while wanted:
            size = next(size for size in a["pieces"] if size <= len(wanted))
            parts.append(f"part_{n}.s" + "".join(f"{one:x}" for one in wanted[:size]))
            wanted = wanted[size:]
%>\
static inline ${vector} ${a["name"]}(${a["space"]} const ${a["element"]}* p, const ${a["address"]} base) {
% for n, start in starts.items():
    const ${vector} part_${n} = ADJACENT(${vector}_in_memory, ${a["space"]} const, p + base + ${start});
% endfor
    return (${vector})(${", ".join(parts)});
}
</%def>

## Interleaving store: the elements of the vectors alternate in memory.
<%def name="interleave_store(a, vector)">
<%
    width, step = a["width"], a["step"]
    given = [f"const {vector} given_{n}" for n in range(step)]
    texts = [", ".join(f"given_{place % step}.s{place // step:x}" for place in range(n * width, (n + 1) * width)) for n in range(step)]
%>\
static inline void ${a["name"]}(${a["space"]} ${a["element"]}* p, const ${a["address"]} base, ${", ".join(given)}) {
% for n in range(step):
    ADJACENT(${vector}_in_memory, ${a["space"]}, p + base + ${n * width}) = (${vector})(${texts[n]});
% endfor
}
</%def>

## Adjacent elements along an axis that is stored as interleaved planes.
<%def name="plane_access(a, vector)">
<%
    width, factor, plane_size, address = a["width"], a["interleave_factor"], a["plane_size"], a["address"]
    size = width // factor
    lanes = [[f"{lane:x}" for lane in range(each, width, factor)] for each in range(factor)]
    wide = f"{address}{width}"
    at = f"({wide})(base) + (at & ({wide})({factor - 1})) * ({wide})({plane_size}) + (at >> ({wide})({factor.bit_length() - 1}))"
    load = a["kind"] == "load"
    part = a["value"] + (str(size) if size > 1 else "")
%>\
static inline ${vector if load else "void"} ${a["name"]}(${a["space"]} ${"const " if load else ""}${a["element"]}* p, const ${address} base, const ${address} first${"" if load else f", const {vector} given"}) {
    if ((first & ${factor - 1}) == 0) {
        p += base + first / ${factor};
% for each in range(factor):
% if load:
        const ${part} part_${each} = ${f"ADJACENT({part}_in_memory, {a['space']} const, p + {each * plane_size})" if size > 1 else f"p[{each * plane_size}]"};
% elif size > 1:
        ADJACENT(${part}_in_memory, ${a["space"]}, p + ${each * plane_size}) = given.s${"".join(lanes[each])};
% else:
        p[${each * plane_size}] = given.s${lanes[each][0]};
% endif
% endfor
% if load:
        return (${vector})(${", ".join(f"part_{lane % factor}" + (f".s{lane // factor:x}" if size > 1 else "") for lane in range(width))});
    }
    const ${wide} at = ${a["iota"]};
    return ${a["by_lane"]}(p, ${at});
% else:
    } else {
        const ${wide} at = ${a["iota"]};
        ${a["by_lane"]}(p, ${at}, given);
    }
% endif
}
</%def>

## Functions of two floats, lane by lane: some drivers' vector forms are wrong (fmod of lanes of very different sizes).
## Parameters: maps, a list of {name, function, value, width}.
<%def name="mapped(maps)">
% for m in maps:
__attribute__((noinline)) static ${m["value"]}${m["width"]} ${m["name"]}(${m["value"]}${m["width"]} a, ${m["value"]}${m["width"]} b) {
    ${m["value"]} first[${m["width"]}], second[${m["width"]}];
    ADJACENT(${m["value"]}${m["width"]}_in_memory, __private, first) = a;
    ADJACENT(${m["value"]}${m["width"]}_in_memory, __private, second) = b;
    __attribute__((opencl_unroll_hint(1)))
    for (int lane = 0; lane < ${m["width"]}; lane++) first[lane] = ${m["function"]}(first[lane], second[lane]);
    return ADJACENT(${m["value"]}${m["width"]}_in_memory, __private, first);
}
% endfor
</%def>
