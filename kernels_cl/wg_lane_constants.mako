## Lane constants (SPEC S3): values that each lane loads once into registers and keeps for all its virtual wavefronts.
## This avoids repeated loads, and searches need no addresses.
## Parameters of the calls: name (of the registers), type (C type), count (constant).

## Loads source[k * step] for every k. `source` (C pointer expression) may differ between lanes.
<%def name="load(name, type, count, source, step='1')">
    const ${type} ${", ".join(f"{name}_{k} = ({source})[{k} * {step}]" for k in range(count))};
</%def>

## Counts the constants first, ..., first + count - 1 that are <= value, as an int expression: the position of a value
## among sorted thresholds, with the same steps in all lanes.
<%def name="reached(name, first, count, value)" buffered="True" filter="trim">
(${" + ".join(f"(({value}) >= {name}_{k})" for k in range(first, first + count)) or "0"})
</%def>
