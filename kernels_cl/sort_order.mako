## The order of a sort: defines `int less(T, T)` for two elements.
## Parameters of the call: key (T), ordering: a dict of
##   text        the user's functions in C (may be empty)
##   function    name of the user's `int f(K, K)`, or None
##   key_function, compared   name of the user's `K f(T)`, or None; the C type K that is compared
##   parts       without a function: comparisons in order, as (C expression of @, is_float); NaN comes last
##   descending  reverse the order (equal elements still keep their order)
<%def name="less(key, ordering)">
<%  K = ordering["compared"]  %>
${ordering["text"]}
static int ordered(const ${K} a, const ${K} b) {
% if ordering["function"]:
    return ${ordering["function"]}(a, b) != 0;
% else:
% for expression, is_float in ordering["parts"]:
<%
    a, b = expression.replace("@", "a"), expression.replace("@", "b")
    def before(x, y):
        return f"(({x} < {y}) | (({x} == {x}) & ({y} != {y})))" if is_float else f"({x} < {y})"
%>
% if loop.last:
    return ${before(a, b)};
% else:
    if (${before(a, b)}) return 1;
    if (${before(b, a)}) return 0;
% endif
% endfor
% endif
}

static int less(const ${key} a, const ${key} b) {
<%
    first, second = ("b", "a") if ordering["descending"] else ("a", "b")
    if ordering["key_function"]:
        first, second = (f"{ordering['key_function']}({name})" for name in (first, second))
%>
    return ordered(${first}, ${second});
}
</%def>
