## Lane constants (SPEC S3): values that each lane loads once, into registers, and keeps over all its virtual wavefronts:
## no repeated fetch, and look-ups without addresses.
## Parameters of the calls: name (of the registers), type (C type), count (constant).

## Loads source[k * step] for every k: `source` (C pointer expression) may differ from lane to lane.
<%def name="load(name, type, count, source, step='1')">
    const ${type} ${", ".join(f"{name}_{k} = ({source})[{k} * {step}]" for k in range(count))};
</%def>

## How many of the constants first, ..., first + count - 1 a value reaches (value >= constant), as an int expression: the
## place of a value among sorted thresholds, found by all lanes alike.
<%def name="reached(name, first, count, value)" buffered="True" filter="trim">
(${" + ".join(f"(({value}) >= {name}_{k})" for k in range(first, first + count)) or "0"})
</%def>
