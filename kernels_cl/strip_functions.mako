## Access to memory by the lanes of a strip, for pydp/lang/lower_vector.py. No kernel here.
## Each function loops over the lanes. It is called, not inlined, and the loop is kept small: a body has many of them,
## and drivers took seconds to compile their copies. The fast ways need no function.
## Parameters: accesses, a list of {name, kind ("load", "store" or "atomic_OP"), space, element, member, value, width,
##   address (integer type), form ("strided": base and step; "vector": an address for each lane; "comb2", "comb4": base,
##   and every second or fourth element from there, taken out of whole vectors), masked, update}.
##   element: the C type pointed to; member: text after the element; value: the scalar C type moved;
##   update (atomics): C statement in which PLACE and VALUE stand for the element's pointer and the lane's value.
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
% if a["form"].startswith("comb"):
<%
    step = int(a["form"][4:])
    first, last = "".join(f"{n:x}" for n in range(0, width, step)), "".join(f"{n:x}" for n in range(step - 1, width, step))
%>\
static inline ${vector} ${a["name"]}(${a["space"]} const ${a["element"]}* p, const ${address} base) {
    ## The last vector ends with the last element that is wanted, so that nothing behind it is read.
    return (${vector})(${", ".join(
        [f"vload{width}(0, p + base + {n * width}).s{first}" for n in range(step - 1)]
        + [f"vload{width}(0, p + base + {step * width - width - step + 1}).s{last}"])});
}
% else:
% if a["kind"] == "load":
__attribute__((noinline)) static ${vector} ${a["name"]}(${a["space"]} const ${a["element"]}* p, ${where}${mask}${f", const {value} fill" if a["masked"] else ""}) {
    ${value} got[${width}] __attribute__((aligned(64)));
% else:
__attribute__((noinline)) static void ${a["name"]}(${a["space"]} ${a["element"]}* p, ${where}, const ${vector} given${mask}) {
    ${value} got[${width}] __attribute__((aligned(64)));
    vstore${width}(given, 0, got);
% endif
% if not strided:
    ${address} place[${width}] __attribute__((aligned(64)));
    vstore${width}(at, 0, place);
% endif
% if a["masked"]:
    int on[${width}] __attribute__((aligned(64)));
    vstore${width}(mask, 0, on);
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
% else:
        ${test}{ ${a["update"].replace("PLACE", "(p + " + place + ")").replace("VALUE", "got[lane]")} }
% endif
    }
% if a["kind"] == "load":
    return vload${width}(0, got);
% endif
}
% endif
% endfor
</%def>

## Functions of two floats whose vector forms some drivers get wrong (fmod of lanes of very different sizes), lane by lane.
## Parameters: maps, a list of {name, function, value, width}.
<%def name="mapped(maps)">
% for m in maps:
__attribute__((noinline)) static ${m["value"]}${m["width"]} ${m["name"]}(${m["value"]}${m["width"]} a, ${m["value"]}${m["width"]} b) {
    ${m["value"]} first[${m["width"]}], second[${m["width"]}];
    vstore${m["width"]}(a, 0, first);
    vstore${m["width"]}(b, 0, second);
    __attribute__((opencl_unroll_hint(1)))
    for (int lane = 0; lane < ${m["width"]}; lane++) first[lane] = ${m["function"]}(first[lane], second[lane]);
    return vload${m["width"]}(0, first);
}
% endfor
</%def>
