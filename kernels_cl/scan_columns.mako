## Scan along an axis with adjacent columns: every work-item scans some columns.
## Launch: one work-item for each `width` columns of each slab, in whole work-groups.
## Element k of column c of slab o is at offset + o * outer + k * step + c (for x, y and h).
## Parameters: see scan_common (rows and nested False, units 0), exclusive, start_value, width (columns of a
## work-item; 1 on GPUs, where adjacent work-items scan adjacent columns), vector (elements of a vector, 0: scalar;
## divides width), combine_vector, convert_vector.
<%namespace name="common" file="scan_common.mako"/>
<%
    lanes = range(width)
    pieces = range(width // vector) if vector else ()
%>
${common.prelude()}
static VALUE converted(const SOURCE x) { return ${convert}; }
% if init == "value":
#define INIT init_value
% elif init == "buffer":
#define INIT init_buffer[init_offset]
% endif
% if vector:
typedef ${value}${vector} WIDE;
${combine_vector}
% endif
kernel void scan(
    global const SOURCE* x, const long x_offset, const long x_step, const long x_outer,
% if heads != "none":
    global const HEAD* h, const long h_offset, const long h_step, const long h_outer,
% endif
    global VALUE* y, const long y_offset, const long y_step, const long y_outer,
    const long slabs, const long n, const long columns
% if init == "value":
    , const VALUE init_value
% elif init == "buffer":
    , global const VALUE* init_buffer, const long init_offset
% endif
) {
    const long strips = (columns + ${width - 1}) / ${width};
    const long me = get_global_id(0);
    if (me < strips * slabs) {
        const long slab = me / strips;
        const long first = (me - slab * strips) * ${width};
        global const SOURCE* from = x + x_offset + slab * x_outer + first;
        global VALUE* to = y + y_offset + slab * y_outer + first;
% if heads != "none":
        global const HEAD* mark = h + h_offset + slab * h_outer + first;
% endif
% if vector:
        if (first + ${width} <= columns) {
%   for i in pieces:
            WIDE sum${i};
%   endfor
%   if init != "none":
%     for i in pieces:
            sum${i} = (WIDE) (INIT);
%     endfor
            for (long k = 0; k < n; ++k, from += x_step, to += y_step) {
%   else:
%     for i in pieces:
            sum${i} = ${convert_vector.replace("$X", f"vload{vector}({i}, from)")};
            vstore${vector}(${f"(WIDE) ({start_value})" if exclusive else f"sum{i}"}, ${i}, to);
%     endfor
            from += x_step;
            to += y_step;
            for (long k = 1; k < n; ++k, from += x_step, to += y_step) {
%   endif
%   for i in pieces:
                const WIDE v${i} = ${convert_vector.replace("$X", f"vload{vector}({i}, from)")};
%   endfor
%   for i in pieces:
%     if exclusive:
                vstore${vector}(sum${i}, ${i}, to);
%     endif
                sum${i} = combine_vector(sum${i}, v${i});
%     if not exclusive:
                vstore${vector}(sum${i}, ${i}, to);
%     endif
%   endfor
            }
        } else
% endif
        {
            const int count = (int) min(columns - first, (long) ${width});
% for i in lanes:
            VALUE s${i};
            int have${i} = ${int(init != "none")};
%   if init != "none":
            s${i} = INIT;
%   endif
% endfor
            for (long k = 0; k < n; ++k) {
% for i in lanes:
                if (${i} < count) {
                    const VALUE v = converted(from[${i}]);
%   if heads == "flags":
                    if (mark[${i}] != 0) {
%   elif heads == "keys":
                    if (k > 0 && mark[${i}] != mark[${i} - h_step]) {
%   endif
%   if heads != "none":
%     if heads_init:
                        s${i} = INIT;
                        have${i} = 1;
%     else:
                        have${i} = 0;
%     endif
                    }
%   endif
%   if exclusive:
                    if (have${i}) to[${i}] = s${i}; ${f"else to[{i}] = {start_value};" if start_value else ""}
%   endif
                    if (have${i}) s${i} = combine(s${i}, v); else s${i} = v;
                    have${i} = 1;
%   if not exclusive:
                    to[${i}] = s${i};
%   endif
                }
% endfor
                from += x_step;
                to += y_step;
% if heads != "none":
                mark += h_step;
% endif
            }
        }
    }
}
