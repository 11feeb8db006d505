## Common parts of the scan kernels: types, the operator, the addresses of elements, heads.
## Elements are numbered 0 .. n - 1 along one axis (flat) or row by row (rows: element i is element i % row_length of
## row i / row_length; row r starts at offset + r * outer, or with nested rows at
## offset + r / inner * outer + r % inner * within).
## Parameters: declarations, source, value (C types), convert (of x), combine (text), heads ("none", "flags", "keys"),
## head_type, rows, nested, x_unit, y_unit, h_unit (1 or -1: the stride; 0: the stride is an argument), init ("none",
## "value", "buffer"), heads_init (init is the left operand of a head's element), start ("none", "init", "carry": the
## value before element 0).
<%def name="prelude()">
#pragma OPENCL FP_CONTRACT OFF
${declarations}
typedef ${source} SOURCE;
typedef ${value} VALUE;
% if heads != "none":
typedef ${head_type} HEAD;
% endif
${combine}
</%def>
##
<%def name="layout_parameters(letter, kind, unit)">
global ${kind}* ${letter}, const long ${letter}_offset
% if not unit:
, const long ${letter}_step
% endif
% if rows:
, const long ${letter}_outer
% endif
% if nested:
, const long ${letter}_within
% endif
</%def>
##
<%def name="layout_names(letter, unit)">
${letter}, ${letter}_offset
% if not unit:
, ${letter}_step
% endif
% if rows:
, ${letter}_outer
% endif
% if nested:
, ${letter}_within
% endif
</%def>
## The input arguments of every function below: INPUTS in a declaration, INPUT_NAMES in a call. The kernel has
## `kernel_inputs` and begins with `begin_kernel`. bounded: n is read on the device (one row; see
## pydp.algorithms.lengths), and work-groups without elements end.
<%def name="kernel_inputs()">
% if bounded:
${inputs("capacity").strip()}, global const long* length
% else:
${inputs().strip()}
% endif
</%def>
<%def name="begin_kernel()">
% if bounded:
    const long n = length[0];
% endif
</%def>
<%def name="inputs(n='n')">
${layout_parameters("x", "const SOURCE", x_unit)}
% if heads != "none":
, ${layout_parameters("h", "const HEAD", h_unit)}
% endif
, const long ${n}
% if rows:
, const long row_length
% endif
% if nested:
, const long inner
% endif
, const int part
% if init == "value":
, const VALUE init_value
% elif init == "buffer":
, global const VALUE* init_buffer, const long init_offset
% endif
% if start == "carry":
, global const VALUE* carry_in
% endif
</%def>
##
<%def name="input_names()">
${layout_names("x", x_unit)}
% if heads != "none":
, ${layout_names("h", h_unit)}
% endif
, n
% if rows:
, row_length
% endif
% if nested:
, inner
% endif
, part
% if init == "value":
, init_value
% elif init == "buffer":
, init_buffer, init_offset
% endif
% if start == "carry":
, carry_in
% endif
</%def>
##
<%def name="addresses()">
<% letters = [("x", x_unit), ("y", y_unit)] + ([("h", h_unit)] if heads != "none" else []) %>
% for letter, unit in letters:
#define ${letter.upper()}_AT(base, k) ((base) ${{1: "+ (k)", -1: "- (k)", 0: f"+ (k) * {letter}_step"}[unit]})
%   if nested:
#define ${letter.upper()}_BASE(row) (${letter}_offset + (row) / inner * ${letter}_outer + (row) % inner * ${letter}_within)
%   elif rows:
#define ${letter.upper()}_BASE(row) (${letter}_offset + (row) * ${letter}_outer)
%   endif
% endfor
% if init == "value":
#define INIT init_value
% elif init == "buffer":
#define INIT init_buffer[init_offset]
% endif
% if start == "carry":
#define START carry_in[0]
% elif start == "init":
#define START INIT
% endif
static VALUE converted(const SOURCE x) { return ${convert}; }
% if heads == "flags":
#define IS_HEAD(base, k) (h[H_AT(base, k)] != 0)
% elif heads == "keys":
#define IS_HEAD(base, k) ((k) > 0 && h[H_AT(base, k)] != h[H_AT(base, (k) - 1)])
% endif
</%def>
