"""``pyopencl.algorithm``: the same names, faster.

Kernels: ``kernels_cl/compat_radix.mako`` and ``compat_starts.mako``.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.tools import (
    ScalarArg,
    VectorArg,
    dtype_to_ctype,
    get_arg_list_scalar_arg_dtypes,
    get_arg_offset_adjuster_code,
)
from pytools import memoize_method

from pydp.compat.pyopencl import direct
from pydp.compat.pyopencl.devices import build, check_process, has_double, mapping_of, scratch
from pydp.compat.pyopencl.rebind import original_module, overrides, public_names
from pydp.compat.pyopencl.scan import GenericScanKernel, ScanTemplate

if TYPE_CHECKING:
    import pyopencl.algorithm as original
else:
    original = original_module("algorithm")
BuiltList = original.BuiltList

OWN = [
    "BuiltList",
    "KeyValueSorter",
    "ListOfListsBuilder",
    "RadixSort",
    "copy_if",
    "partition",
    "remove_if",
    "unique",
]
__all__ = public_names(OWN, original)

_DIGIT_BITS = 11  # bits of a digit: three passes for 32 bits. More than 2048 places need more cache than a core has
_STAGED = ((8, 16), (16, 8))  # (maximum bytes of an element, elements of a digit that are stored together)
_CHUNK = 8192  # minimum elements of a chunk
_CHUNKS = 4  # chunks per compute unit


def __getattr__(name: str) -> Any:
    return getattr(original, name)


# Elements to keep are stored where the next one belongs, without a condition that depends on them: processors predict
# only the condition that ends a partition. On GPUs, work-items that keep nothing store nothing.
_STORE = {
    "vector": "if (prev_item < psc_stop) out[prev_item] = ary[i];",
    "simt": "if (prev_item != item) out[item-1] = ary[i];",
}


def _templates(outputs: str, count: str, stores: dict[str, str], **texts: Any) -> dict[str, ScanTemplate]:
    """The templates of a selection, by mapping."""
    return {
        mapping: ScanTemplate(
            arguments=f"item_t *ary, {outputs}, scan_t *{count}",
            scan_expr="a+b",
            neutral="0",
            output_statement=f"{store} if (i+1 == N) *{count} = item;",
            template_processor="printf",
            **texts,
        )
        for mapping, store in stores.items()
    }


_PREDICATE = "(%(predicate)s) ? 1 : 0"
_copy_if = _templates("item_t *out", "count", _STORE, input_expr=_PREDICATE)
_partition = _templates(
    "item_t *out_true, item_t *out_false",
    "count_true",
    dict.fromkeys(_STORE, "*(prev_item != item ? out_true + prev_item : out_false + (i - prev_item)) = ary[i];"),
    input_expr=_PREDICATE,
)
_unique = _templates(
    "item_t *out",
    "count_unique",
    _STORE,
    input_fetch_exprs=[("ary_im1", "ary", -1), ("ary_i", "ary", 0)],
    input_expr="(i == 0) || (IS_EQUAL_EXPR(ary_im1, ary_i) ? 0 : 1)",
    preamble="#define IS_EQUAL_EXPR(a, b) %(macro_is_equal_expr)s\n",
)


def _extra(extra_args: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The argument declarations and the values of `extra_args`."""
    types: list[Any] = []
    for name, value in extra_args or ():
        if isinstance(value, cl_array.Array):
            types.append(VectorArg(value.dtype, name))
        elif isinstance(value, np.generic):
            types.append(ScalarArg(value.dtype, name))
        else:
            kind = type(value).__name__
            raise RuntimeError(f"argument {name!r} has type {kind}; arrays and NumPy scalars are accepted")
    return tuple(types), tuple(value for _, value in extra_args or ())


def _selected(
    templates: dict[str, ScanTemplate],
    outputs: int,
    ary: Any,
    variables: tuple[tuple[str, str], ...],
    extra_args: Any,
    preamble: str,
    queue: Any,
    wait_for: Any,
) -> tuple[Any, ...]:
    check_process(ary.context)
    count_type = np.dtype(np.uint64 if len(ary) > np.iinfo(np.uint32).max else np.uint32)
    types, values = _extra(extra_args)
    large = (("index_t", np.dtype(np.int64)),) if len(ary) > np.iinfo(np.int32).max else ()
    kernel = templates[mapping_of(ary.context.devices)].build(
        ary.context,
        type_aliases=(("item_t", ary.dtype), ("scan_t", count_type), *large),
        var_values=variables,
        more_preamble=preamble,
        more_arguments=types,
    )
    results = [cl_array.empty_like(ary) for _ in range(outputs)]
    count = ary._new_with_changes(data=None, offset=0, shape=(), strides=(), dtype=count_type)
    if not len(ary):
        count.fill(0, queue=queue, wait_for=wait_for)
        return (*results, count, count.events[-1])
    event = kernel(ary, *results, count, *values, queue=queue, wait_for=wait_for)
    for one in (*results, count):
        one.add_event(event)
    return (*results, count, event)


def copy_if(
    ary: Any, predicate: str, extra_args: Any = None, preamble: str = "", queue: Any = None, wait_for: Any = None
) -> tuple[Any, Any, Any]:
    """Copy the elements of `ary` for which `predicate` holds, a C expression that may use ``ary[i]``.

    Returns (array with space for all elements, number of copies on the device, event).
    """
    check_process(ary.context)
    if not extra_args and not preamble and (found := direct.select(ary, predicate, queue, wait_for)) is not None:
        return found
    variables = (("predicate", predicate),)
    out, count, event = _selected(_copy_if, 1, ary, variables, extra_args, preamble, queue, wait_for)
    return out, count, event


def remove_if(
    ary: Any, predicate: str, extra_args: Any = None, preamble: str = "", queue: Any = None, wait_for: Any = None
) -> tuple[Any, Any, Any]:
    """Copy the elements for which `predicate` does not hold. Returns what `copy_if` returns."""
    return copy_if(ary, f"!({predicate})", extra_args, preamble, queue, wait_for)


def partition(
    ary: Any, predicate: str, extra_args: Any = None, preamble: str = "", queue: Any = None, wait_for: Any = None
) -> tuple[Any, Any, Any, Any]:
    """Copy the elements for which `predicate` holds to one array, and the others to another.

    Returns (first array, second array, number of elements in the first, event).
    """
    variables = (("predicate", predicate),)
    true, false, count, event = _selected(_partition, 2, ary, variables, extra_args, preamble, queue, wait_for)
    return true, false, count, event


def unique(
    ary: Any,
    is_equal_expr: str = "a == b",
    extra_args: Any = None,
    preamble: str = "",
    queue: Any = None,
    wait_for: Any = None,
) -> tuple[Any, Any, Any]:
    """Copy the elements that differ from their predecessors. Returns what `copy_if` returns."""
    variables = (("macro_is_equal_expr", is_equal_expr),)
    out, count, event = _selected(_unique, 1, ary, variables, extra_args, preamble, queue, wait_for)
    return out, count, event


class _Deferred:
    """A scan kernel that is built when it is first used."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.made = (args, kwargs)


class RadixSort(original.RadixSort):
    """A radix sort by a key expression: :class:`pyopencl.algorithm.RadixSort`.

    On CPUs a pass takes more bits than `bits_at_a_time`, unless `scan_kernel` is given. On GPUs the passes are
    pyopencl's, on the scan of this package.
    """

    def __init__(
        self,
        context: Any,
        arguments: Any,
        key_expr: str,
        sort_arg_names: Any,
        bits_at_a_time: int = 2,
        index_dtype: Any = np.int32,
        key_dtype: Any = np.uint32,
        scan_kernel: Any = GenericScanKernel,
        options: Any = None,
    ) -> None:
        check_process(context)
        self._context = context
        self._scan_kernel: Any = None
        own = scan_kernel is GenericScanKernel and mapping_of(context.devices) == "vector"
        super().__init__(
            context,
            arguments,
            key_expr,
            sort_arg_names,
            bits_at_a_time,
            index_dtype,
            key_dtype,
            _Deferred if own else scan_kernel,
            options,
        )
        self._passes = _Passes(self, context, key_expr) if own else None

    @property
    def scan_kernel(self) -> Any:  # type: ignore[override]
        """The scan kernel of pyopencl's passes."""
        if isinstance(self._scan_kernel, _Deferred):
            args, kwargs = self._scan_kernel.made
            self._scan_kernel = GenericScanKernel(*args, **kwargs)
        return self._scan_kernel

    @scan_kernel.setter
    def scan_kernel(self, value: Any) -> None:
        self._scan_kernel = value

    def __call__(
        self,
        *args: Any,
        queue: Any = None,
        allocator: Any = None,
        key_bits: int | None = None,
        wait_for: Any = None,
        **kwargs: Any,
    ) -> tuple[tuple[Any, ...], Any]:
        """Return (the sorted copies of the arrays in `sort_arg_names`, the event)."""
        if kwargs:
            raise TypeError(f"invalid keyword arguments: {set(kwargs)}")
        first = args[self.first_array_arg_idx]
        check_process(self._context)
        if key_bits is not None and key_bits <= 0:
            return self._copies(args, queue or first.queue, allocator or first.allocator, wait_for)
        if self._passes is None:
            results, event = super().__call__(
                *args, queue=queue, allocator=allocator, key_bits=key_bits, wait_for=wait_for
            )
            for one in results:
                one.add_event(event)
            return results, event
        bits = int(np.iinfo(self.key_dtype).bits)
        if key_bits is not None:
            bits = min(bits, -(-key_bits // self.bits) * self.bits)
        allocators = [allocator or first.allocator] * len(self._passes.moved)
        return self._passes.run(list(args), len(first), bits, queue or first.queue, allocators, wait_for)

    def _copies(self, args: tuple[Any, ...], queue: Any, allocator: Any, wait_for: Any) -> tuple[tuple[Any, ...], Any]:
        """The results of a sort by no bits."""
        n = len(args[self.first_array_arg_idx])
        events = list(wait_for or ())
        results = []
        for one, value in zip(self.arguments, args, strict=True):
            if not isinstance(one, VectorArg):
                continue
            events.extend(value.events)
            if one.name in self.sort_arg_names:
                copy = cl_array.empty(queue, n, one.dtype, allocator=allocator)
                results.append(copy)
                if n:
                    source, offset = value.base_data, value.offset
                    copied = cl.enqueue_copy(
                        queue, copy.base_data, source, src_offset=offset, byte_count=copy.nbytes, wait_for=events
                    )
                    events = [copied]
        event = cl.enqueue_marker(queue, wait_for=events)
        for copy in results:
            copy.add_event(event)
        return tuple(results), event


class _Passes:
    """The passes of a radix sort on CPUs."""

    def __init__(self, sort: RadixSort, context: Any, key_expr: str) -> None:
        self.sort = sort
        self.arguments = [
            VectorArg(one.dtype, one.name, with_offset=True) if isinstance(one, VectorArg) else one
            for one in sort.arguments
        ]
        self.moved = [at for at, one in enumerate(self.arguments) if one.name in sort.sort_arg_names]
        self.units = max(one.max_compute_units for one in context.devices)
        moved = [self.arguments[at] for at in self.moved]
        params: dict[str, object] = {
            "key_expr": key_expr.replace("//CL//", "\n"),
            "arguments": ", ".join(one.declarator() for one in self.arguments),
            "adjust_offsets": get_arg_offset_adjuster_code(self.arguments),
            "sorted": [(one.name, dtype_to_ctype(one.dtype)) for one in moved],
            "key": dtype_to_ctype(sort.key_dtype),
            "index": dtype_to_ctype(sort.index_dtype),
            "digits": 1 << _DIGIT_BITS,
            "staged": next((staged for size, staged in _STAGED if sum(one.dtype.itemsize for one in moved) <= size), 0),
            "double_support": all(has_double(one) for one in context.devices),
        }
        program = build(context, context.devices, "compat_radix.mako", params, sort.options)
        index = sort.index_dtype
        given = [*get_arg_list_scalar_arg_dtypes(self.arguments), index, index, np.int32, np.uint32, None]
        self.count, self.offsets, self.scatter = program.psc_count, program.psc_offsets, program.psc_scatter
        self.count.set_scalar_arg_dtypes(given)
        self.offsets.set_scalar_arg_dtypes([None, np.uint32])
        self.scatter.set_scalar_arg_dtypes([*given, *[None] * len(moved)])

    def run(
        self, args: list[Any], n: int, bits: int, queue: Any, allocators: list[Any], wait_for: Any
    ) -> tuple[tuple[Any, ...], Any]:
        """Enqueue the passes. Two sets of arrays are written in turn; the first pass reads the caller's.

        `allocators`: of the result of each array that is moved.
        """
        events = list(wait_for or ())
        for one, value in zip(self.arguments, args, strict=True):
            if isinstance(one, VectorArg):
                events.extend(value.events)
        passes = -(-bits // _DIGIT_BITS)
        digit = -(-bits // passes)
        results = self._arrays(queue, n, allocators)
        if not n:
            event = cl.enqueue_marker(queue, wait_for=events)
            for one in results:
                one.add_event(event)
            return tuple(results), event
        part = max(_CHUNK, -(-n // (_CHUNKS * self.units)))
        chunks = -(-n // part)
        counts = scratch(queue, self.sort.index_dtype.itemsize * chunks << _DIGIT_BITS)
        others = self._arrays(queue, n, [None] * len(self.moved)) if passes > 1 else []
        for number in range(passes):
            base = number * digit
            mask = (1 << min(digit, bits - base)) - 1
            data: list[Any] = []
            for one, value in zip(self.arguments, args, strict=True):
                data += [value.base_data, value.offset] if isinstance(one, VectorArg) else [value]
            shared = [*data, n, part, base, mask, counts]
            target = others if (passes - number) % 2 == 0 else results
            events = [self.count(queue, (chunks,), (1,), *shared, wait_for=events)]
            events = [self.offsets(queue, (1,), (1,), counts, chunks * (mask + 1), wait_for=events)]
            events = [
                self.scatter(queue, (chunks,), (1,), *shared, *(one.base_data for one in target), wait_for=events)
            ]
            for at, value in zip(self.moved, target, strict=True):
                args[at] = value
        for one in results:
            one.add_event(events[0])
        return tuple(results), events[0]

    def _arrays(self, queue: Any, n: int, allocators: list[Any]) -> list[Any]:
        return [
            cl_array.empty(queue, n, self.arguments[at].dtype, allocator=allocator)
            for at, allocator in zip(self.moved, allocators, strict=True)
        ]


class _StartsScan(GenericScanKernel):
    """Counts to starts, in place. Only the element after the last one is written at another index: nothing reads it."""

    def _analyse(self) -> None:
        super()._analyse()
        self._must_store = False


_CHUNK_OBJECTS = 128  # adjacent objects of a work-item, in pyopencl's template
_MOST_CHUNKS = 1 << 16  # maximum chunks of a launch; work-items step over as many with the builder's index type
_WORK_ITEM = re.compile(r"\bget_\w+|#\s*include")  # text that may depend on the number of work-items


class _InChunks:
    """A ListOfListsBuilder for one call: its kernels run with a work-item for each chunk of adjacent objects.

    pyopencl launches four work-items for each core, and each goes through the whole memory in steps. With a work-item
    for each chunk, a core reads and writes adjacent memory, which takes half the time.
    """

    def __init__(self, builder: ListOfListsBuilder) -> None:
        self._builder = builder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)

    def get_count_kernel(self, index_dtype: Any) -> Any:
        """The kernel that counts the elements of each list."""
        return functools.partial(_enqueue_chunks, self._builder.get_count_kernel(index_dtype))

    def get_write_kernel(self, index_dtype: Any) -> Any:
        """The kernel that writes the lists."""
        return functools.partial(_enqueue_chunks, self._builder.get_write_kernel(index_dtype))


def _enqueue_chunks(kernel: Any, queue: Any, size: tuple[int], group: tuple[int], *args: Any, **named: Any) -> cl.Event:
    """Enqueue a kernel over its chunks. `args` ends with the number of objects, `size` is pyopencl's."""
    count = int(args[-1])
    chunks = min(-(-count // _CHUNK_OBJECTS), _MOST_CHUNKS)
    if count > np.iinfo(np.int32).max - _CHUNK_OBJECTS * _MOST_CHUNKS:
        chunks = 0  # the index after a work-item's last chunk could exceed 32 bits
    event: cl.Event = kernel(queue, (max(size[0], chunks),), group, *args, **named)
    return event


class ListOfListsBuilder(original.ListOfListsBuilder):
    """Many lists of different lengths: :class:`pyopencl.algorithm.ListOfListsBuilder`, on the scan of this package."""

    def __call__(
        self,
        queue: Any,
        n_objects: int,
        *args: Any,
        allocator: Any = None,
        omit_lists: Any = None,
        wait_for: Any = None,
        **kwargs: Any,
    ) -> tuple[dict[str, original.BuiltList], Any]:
        """Build the lists of `n_objects` objects; the parameters are pyopencl's."""
        check_process(self.context)
        kwargs |= {"allocator": allocator, "omit_lists": omit_lists, "wait_for": wait_for}
        texts = f"{self.preamble}\n{self.generate_template}\n{self.options}"
        plain = self.complex_kernel or self.debug or _WORK_ITEM.search(texts) or not self.do_not_vectorize()
        builder: Any = self if plain else _InChunks(self)
        return original.ListOfListsBuilder.__call__(builder, queue, n_objects, *args, **kwargs)

    @memoize_method
    def get_scan_kernel(self, index_dtype: Any) -> GenericScanKernel:
        """The scan that turns counts to starts."""
        return _StartsScan(
            self.context,
            index_dtype,
            f"__global {dtype_to_ctype(index_dtype)} *ary",
            "ary[i]",
            "a+b",
            "0",
            "if (i + 1 == N) ary[i + 1] = item; ary[i] = prev_item;",
            devices=self.devices,
        )

    @memoize_method
    def get_compress_kernel(self, index_dtype: Any) -> GenericScanKernel:
        """The scan that leaves out empty lists."""
        names = "count compressed_counts nonempty_indices compressed_indices num_non_empty_list".split()
        return GenericScanKernel(
            self.context,
            index_dtype,
            ", ".join(f"__global {dtype_to_ctype(index_dtype)} *{name}" for name in names),
            "count[i] == 0 ? 0 : 1",
            "a+b",
            "0",
            """
                if (i + 1 < N) compressed_indices[i + 1] = item;
                if (prev_item != item) {
                    nonempty_indices[item - 1] = i;
                    compressed_counts[item - 1] = count[i];
                }
                if (i + 1 == N) *num_non_empty_list = item;
            """,
            devices=self.devices,
        )

    def do_not_vectorize(self) -> bool:
        """Return whether each work-item processes adjacent objects; it does on CPUs."""
        return super().do_not_vectorize() or mapping_of(self.devices) == "vector"


class KeyValueSorter(original.KeyValueSorter):
    """Values grouped by keys: :class:`pyopencl.algorithm.KeyValueSorter`.

    Only the bits that keys below `nkeys` have are sorted. A subclass with another ``get_kernels`` runs as it does in
    pyopencl.
    """

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self._mapping = mapping_of(context.devices)
        self._built: dict[Any, Any] = {}

    def _kernels(self, key_dtype: Any, value_dtype: Any, starts_dtype: Any) -> Any:
        """The sort, and the kernel that finds the starts."""
        key = np.dtype(key_dtype), np.dtype(value_dtype), np.dtype(starts_dtype)
        if key not in self._built:
            arguments = [VectorArg(key[1], "values"), VectorArg(key[0], "keys")]
            bits = np.dtype(np.uint64 if key[0].itemsize == 8 else np.uint32)
            sort = RadixSort(self.context, arguments, "keys[i]", ["values", "keys"], key_dtype=bits)
            params: dict[str, object] = {
                "mapping": self._mapping,
                "key": dtype_to_ctype(key[0]),
                "start": dtype_to_ctype(key[2]),
            }
            kernel = build(self.context, self.context.devices, "compat_starts.mako", params).psc_starts
            kernel.set_scalar_arg_dtypes([None, np.int64, None, np.int64, np.int64, np.int64, np.int64])
            self._built[key] = sort, kernel
        return self._built[key]

    def __call__(
        self,
        queue: Any,
        keys: Any,
        values: Any,
        nkeys: int,
        starts_dtype: Any,
        allocator: Any = None,
        wait_for: Any = None,
    ) -> tuple[Any, Any, Any]:
        """Group `values` by `keys`: the starts of the groups (`nkeys` + 1), the grouped values, and the event."""
        check_process(self.context)
        if overrides(self, original.KeyValueSorter, "get_kernels"):
            return super().__call__(queue, keys, values, nkeys, starts_dtype, allocator, wait_for)
        allocator = allocator or values.allocator
        sort, kernel = self._kernels(keys.dtype, values.dtype, starts_dtype)
        bits = max(1, (int(nkeys) - 1).bit_length())
        n = len(values)
        if self._mapping == "vector":  # a memory pool could reuse the memory of the sorted keys before they are read
            bits = min(bits, 8 * sort.key_dtype.itemsize)
            (grouped, ordered), event = sort._passes.run([values, keys], n, bits, queue, [allocator, None], wait_for)
        else:
            (grouped, ordered), event = sort(
                values, keys, queue=queue, allocator=allocator, key_bits=bits, wait_for=wait_for
            )
        starts = cl_array.empty(queue, nkeys + 1, starts_dtype, allocator=allocator)
        if not n:
            starts.fill(0, wait_for=[event])
            return starts, grouped, starts.events[-1]
        if self._mapping == "vector":
            units = max(one.max_compute_units for one in self.context.devices)
            part = max(_CHUNK, -(-n // (_CHUNKS * units)))
            shape: tuple[Any, Any] = (-(-n // part),), (1,)
        else:
            part, shape = n, ((nkeys + 1,), None)
        sources = (starts.base_data, starts.offset, ordered.base_data, ordered.offset)
        event = kernel(queue, *shape, *sources, n, nkeys, part, wait_for=[event])
        starts.add_event(event)
        return starts, grouped, event
