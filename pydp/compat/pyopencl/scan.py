"""``pyopencl.scan``: the same names, faster. Kernels: ``kernels_cl/compat_scan.mako``.

All other names, such as ``GenericDebugScanKernel``, are pyopencl's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl
from pyopencl.tools import (
    VectorArg,
    context_dependent_memoize,
    dtype_to_ctype,
    get_arg_list_scalar_arg_dtypes,
    get_arg_offset_adjuster_code,
)

from pydp.compat.pyopencl import direct
from pydp.compat.pyopencl.access import (
    Access,
    access,
    has_effects,
    has_effects_in_functions,
    index_changes,
    macros,
    memory_of,
    storing_macros,
)
from pydp.compat.pyopencl.devices import (
    build,
    check_process,
    device_quirks,
    has_double,
    lanes_of,
    mapping_of,
    prefetches,
    scratch,
)
from pydp.compat.pyopencl.rebind import original_module, overrides, public_names

if TYPE_CHECKING:
    import pyopencl.scan as original
else:
    original = original_module("scan")
GenericDebugScanKernel, GenericScanKernelBase = original.GenericDebugScanKernel, original.GenericScanKernelBase

OWN = [
    "ExclusiveScanKernel",
    "GenericDebugScanKernel",
    "GenericScanKernel",
    "GenericScanKernelBase",
    "InclusiveScanKernel",
    "ScanTemplate",
    "get_cumsum_kernel",
]
__all__ = public_names(OWN, original)

_ITEMS = 4  # adjacent elements of a work-item, with mapping "simt"
_SMALLEST = 4096  # elements of a partition: fewer are scanned sooner than a work-item is started


def __getattr__(name: str) -> Any:
    return getattr(original, name)


@dataclass(frozen=True)
class _KernelInfo:
    """A kernel, with the names that pyopencl's users read."""

    kernel: Any
    wg_size: int
    k_group_size: int

    @property
    def update_wg_size(self) -> int:
        return self.wg_size


@dataclass(frozen=True)
class _Kernels:
    """The kernels of a variant."""

    reduce: Any
    between: Any
    scan: Any
    single: Any = None


class GenericScanKernel(original.GenericScanKernel):
    """A scan of C expressions, with the parameters and calls of :class:`pyopencl.scan.GenericScanKernel`.

    Each device partition is reduced, then scanned (see ``kernels_cl/compat_scan.mako``). ``mapping`` is "vector" or
    "simt"; None lets the devices decide. ``most_lanes``: work-items of a work-group, with mapping "simt".
    ``cached``: elements of a partition of a scan in one launch, which a cache of each core holds.

    A subclass that overrides one of pyopencl's methods that generate kernels (``generate_scan_kernel``,
    ``get_local_mem_use``), or replaces ``finish_setup``, runs as it does in pyopencl.
    """

    _has_own_kernels = False

    mapping: str | None = None
    most_lanes = 256
    cached = 1 << 15

    def finish_setup(self) -> None:
        """Build the kernels. pyopencl's constructor calls this at its end."""
        check_process(self.context)
        methods = "_finish_setup_impl", "generate_scan_kernel", "get_local_mem_use"
        if overrides(self, original.GenericScanKernel, *methods):
            super().finish_setup()
            return
        self._has_own_kernels = True
        self._mapping = self.mapping or mapping_of(self.devices)
        self._lanes = 1
        if self._mapping == "simt":
            self._lanes = lanes_of(self.devices, self.most_lanes, self.dtype.itemsize + 1)
        self._units = max(one.max_compute_units for one in self.devices)
        self._uses_last = "last_item" in self.output_statement
        self._uses_stop = "psc_stop" in self.output_statement
        self._single = self._one_pass()
        self._analyse()
        self._variants: dict[tuple[bool, bool], _Kernels] = {}
        built = self._kernels(self._must_store, False)
        items = _ITEMS if self._mapping == "simt" else 1
        self.first_level_scan_info = _KernelInfo(built.reduce, self._lanes, items)
        self.second_level_scan_info = _KernelInfo(built.between, self._lanes, items)
        self.final_update_info = _KernelInfo(built.scan, self._lanes, items)

    def _one_pass(self) -> bool:
        """Whether one launch can do the scan: see NAME_single in compat_scan.mako."""
        if self._mapping != "vector" or self.is_segmented or self._uses_last:
            return False
        if self.dtype.kind not in "iuf" or self.dtype.itemsize not in (4, 8):
            return False
        return all(
            device_quirks(one).group_progress and "cl_khr_int64_base_atomics" in one.extensions.split()
            for one in self.devices
        )

    def _analyse(self) -> None:
        """Find out when inputs must be stored: see ``stored`` in compat_scan.mako."""
        preamble = str(self.code_variables["preamble"])
        defined = macros(preamble, self.options)
        storing = storing_macros(defined)
        scan = self.code_variables["scan_expr"]
        inputs = "\n".join(map(str, (self.input_expr, self.is_segment_start_expr or "", scan)))
        names = [one.name for one in self.parsed_args if isinstance(one, VectorArg)]
        fetched = {argument: offset for _, argument, offset in sorted(self.input_fetch_exprs, key=lambda one: -one[2])}
        moved = index_changes("\n".join((inputs, self.output_statement, defined)))
        reads, writes = {}, {}
        for name in names:
            hidden = access(defined, name, storing)
            reads[name] = access(inputs, name, storing) | hidden
            if name in fetched:
                reads[name] |= Access(True, fetched[name] != 0)
            writes[name] = access(self.output_statement, name, storing) | hidden
        self._must_store = has_effects(f"{inputs}\n{defined}", names, storing) or has_effects_in_functions(
            inputs, names, preamble
        )
        ahead = prefetches(self.devices) and not moved
        sizes = {one.name: one.dtype.itemsize for one in self.parsed_args if isinstance(one, VectorArg)}
        in_order = [name for name in names if ahead and reads[name].used and not reads[name].elsewhere]
        self._read_ahead = [(name, sizes[name]) for name in in_order]
        self._pairs: list[tuple[int, int, bool]] = []  # a read and a written argument; whether both only at index i
        places = {one.name: at for at, one in enumerate(self.parsed_args)}
        for read, written in itertools.product(names, names):
            if not reads[read].used or not writes[written].written:
                continue
            same_index = not (moved or reads[read].elsewhere or writes[written].elsewhere)
            if read != written:
                self._pairs.append((places[read], places[written], same_index))
            elif not same_index:
                self._must_store = True

    def _kernels(self, stored: bool, offsets: bool) -> _Kernels:
        """The kernels of a variant. offsets: all arrays may start inside their buffers."""
        found = self._variants.get((stored, offsets))
        if found is not None:
            return found
        arguments = [_with_offset(one) for one in self.parsed_args] if offsets else self.parsed_args
        single = self._single and not stored
        variables = self.code_variables
        ctypes = variables["arg_ctypes"]
        params: dict[str, object] = {
            "scan_expr": variables["scan_expr"],
            "neutral": _text(variables["neutral"]),
            "input_expr": _text(self.input_expr),
            "segment_start": None if self.is_segment_start_expr is None else _text(self.is_segment_start_expr),
            "output_statement": _text(self.output_statement),
            "preamble": variables["preamble"],
            "arguments": ", ".join(one.declarator() for one in arguments),
            "adjust_offsets": get_arg_offset_adjuster_code(arguments),
            "fetches": [(name, ctypes[argument], argument, at) for name, argument, at in self.input_fetch_exprs],
            "value": dtype_to_ctype(self.dtype),
            "index": dtype_to_ctype(self.index_dtype),
            "no_segment": np.iinfo(self.index_dtype).max,
            "name": self.name_prefix,
            "mapping": self._mapping,
            "lanes": self._lanes,
            "items": _ITEMS,
            "stored": stored,
            "uses_previous": self.use_lookbehind_update,
            "uses_last": self._uses_last,
            "uses_stop": self._uses_stop,
            "single": single,
            "item_bytes": self.dtype.itemsize,
            "read_ahead": self._read_ahead,
            "units": max(one.max_compute_units for one in self.devices),
            "double_support": all(has_double(one) for one in self.devices),
        }
        program = build(self.context, self.devices, "compat_scan.mako", params, self.options)
        index, given = self.index_dtype, list(get_arg_list_scalar_arg_dtypes(arguments))
        heads = [None] * self.is_segmented
        items = [None] * stored + (heads if stored else [])
        shapes = {
            "lev1": [index, index, None, *heads, *items],
            "lev2": [index, index, None, *heads],
            "final_update": [index, index, index, None, *items],
            **({"single": [index, index, None]} if single else {}),
        }
        kernels = []
        for phase, rest in shapes.items():
            kernel = getattr(program, f"{self.name_prefix}_{phase}")
            kernel.set_scalar_arg_dtypes([*given, *rest])
            kernels.append(kernel)
        return self._variants.setdefault((stored, offsets), _Kernels(*kernels))

    def _stores(self, args: Sequence[Any]) -> bool:
        if self._must_store:
            return True
        for read, written, same_index in self._pairs:
            one, other = args[read], args[written]
            memory = memory_of(one)
            if memory is not None and memory != memory_of(other):
                continue
            same_place = one is other or (
                memory is not None and one.base_data is other.base_data and one.offset == other.offset
                and one.dtype.itemsize == other.dtype.itemsize
            )  # fmt: skip
            if not (same_index and same_place):
                return True
        return False

    def _partition(self, n: int) -> tuple[int, int]:
        """Elements of a partition, and the number of partitions."""
        if self._mapping == "vector":
            part = max(_SMALLEST, -(-n // (4 * self._units)))
            part = -(-part // 16) * 16
        else:
            tile = self._lanes * _ITEMS
            part = tile * max(1, -(-n // (tile * 8 * self._units)))
        part = min(part, n)  # a small index type holds it
        return part, -(-n // part)

    def __call__(
        self,
        *args: Any,
        queue: Any = None,
        allocator: Any = None,
        size: int | None = None,
        wait_for: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Enqueue the scan; the parameters are pyopencl's. `allocator` is not used. The event is the last kernel's."""
        check_process(self.context)
        if not self._has_own_kernels:
            return super().__call__(*args, queue=queue, allocator=allocator, size=size, wait_for=wait_for, **kwargs)
        if len(args) != len(self.parsed_args):
            raise TypeError(f"expected {len(self.parsed_args)} arguments, got {len(args)}")
        first = args[self.first_array_idx]
        queue = queue or first.queue
        if queue is None:
            raise ValueError("the first array has no queue; give queue=")
        waits = list(wait_for or ())
        if size is None:
            (n,) = first.shape
        else:
            n = int(size)
        if n == 0:
            return cl.enqueue_marker(queue, wait_for=waits)
        vectors = [
            (one, value) for one, value in zip(self.parsed_args, args, strict=True) if isinstance(one, VectorArg)
        ]
        offsets = any(getattr(value, "offset", 0) and not one.with_offset for one, value in vectors)
        data: list[Any] = []
        for one, value in zip(self.parsed_args, args, strict=True):
            if not isinstance(one, VectorArg):
                data.append(value)
                continue
            data.append(getattr(value, "base_data", value))
            if one.with_offset or offsets:
                data.append(getattr(value, "offset", 0))
            waits.extend(getattr(value, "events", ()))
        stored = self._stores(args)
        return self._run(self._kernels(stored, offsets), data, n, stored, queue, waits)

    def _run(self, kernels: _Kernels, data: list[Any], n: int, stored: bool, queue: Any, waits: list[Any]) -> Any:
        if kernels.single is not None and n >= 2 * self.cached:
            parts = -(-n // self.cached)
            zeros = np.zeros(parts + 1, f"V{2 * self.dtype.itemsize}")
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            words = cl.Buffer(queue.context, flags, hostbuf=zeros)
            return kernels.single(queue, (parts,), (1,), *data, n, self.cached, words, wait_for=waits)
        part, parts = self._partition(n)
        group = (self._lanes,)
        grid = (parts * self._lanes,)
        sums = scratch(queue, parts * self.dtype.itemsize)
        items: list[Any] = [scratch(queue, n * self.dtype.itemsize)] if stored else []
        if stored and self.is_segmented:
            items.append(scratch(queue, n))
        if parts > 1 or stored or self._uses_last or self._uses_stop:
            starts = [scratch(queue, parts)] if self.is_segmented else []
            waits = [kernels.reduce(queue, grid, group, *data, n, part, sums, *starts, *items, wait_for=waits)]
            if parts > 1:
                waits = [kernels.between(queue, group, group, *data, n, parts, sums, *starts, wait_for=waits)]
        return kernels.scan(queue, grid, group, *data, n, part, parts, sums, *items, wait_for=waits)


def _with_offset(argument: Any) -> Any:
    return VectorArg(argument.dtype, argument.name, with_offset=True) if isinstance(argument, VectorArg) else argument


def _text(code: str) -> str:
    """The C text of the caller without pyopencl's mark of OpenCL text."""
    return code.replace("//CL//", "\n")


class _ArrayScanKernel(GenericScanKernel):
    """A scan of one array to another one."""

    def __init__(
        self,
        ctx: Any,
        dtype: Any,
        scan_expr: str,
        neutral: str | None = None,
        name_prefix: str = "scan",
        options: Any = None,
        preamble: str = "",
        devices: Sequence[Any] | None = None,
    ) -> None:
        ctype = dtype_to_ctype(np.dtype(dtype))
        super().__init__(
            ctx,
            dtype,
            f"__global {ctype} *input_ary, __global {ctype} *output_ary",
            "input_ary[i]",
            scan_expr,
            neutral,
            self.ary_output_statement,
            options=options,
            preamble=preamble,
            devices=devices,
        )
        self._operator = self._direct_operator()

    def _direct_operator(self) -> str | None:
        """The operator for pydp's scan, or None. Subclasses may change the texts before the kernels are built."""
        texts = self.output_statement, self.input_expr, self.is_segment_start_expr
        if texts != (InclusiveScanKernel._statement, "input_ary[i]", None) or not self._has_own_kernels:
            return None
        scan_expr, neutral, preamble = (str(self.code_variables[one]) for one in ("scan_expr", "neutral", "preamble"))
        return direct.operator_of(scan_expr.replace("\\\n", "\n"), neutral, self.dtype, preamble, self.options)

    @property
    def ary_output_statement(self) -> str:
        """The statement that stores a result."""
        raise NotImplementedError

    def __call__(  # type: ignore[override]
        self, input_ary: Any, output_ary: Any = None, allocator: Any = None, queue: Any = None
    ) -> Any:
        """Scan `input_ary` to `output_ary`: an array, None (in place) or "new"."""
        check_process(self.context)
        allocator = allocator or input_ary.allocator
        if output_ary is None:
            output_ary = input_ary
        if isinstance(output_ary, str) and output_ary == "new":
            output_ary = cl.array.empty_like(input_ary, allocator=allocator)
        queue = queue or input_ary.queue or output_ary.queue
        if input_ary.shape != output_ary.shape:
            raise ValueError("input and output must have the same shape")
        if not input_ary.flags.forc:
            raise RuntimeError(f"{type(self)} cannot handle non-contiguous arrays")
        (n,) = input_ary.shape
        if n and not (self._operator and direct.scan(self._operator, self.dtype, input_ary, output_ary, queue)):
            event = GenericScanKernel.__call__(self, input_ary, output_ary, allocator=allocator, queue=queue)
            output_ary.add_event(event)
        return output_ary


class InclusiveScanKernel(_ArrayScanKernel):
    """An inclusive scan of an array: :class:`pyopencl.scan.InclusiveScanKernel`. :func:`pydp.scan` scans arrays of
    65,536 elements and more with the operators ``+ * & | ^`` and, of integers, ``min`` and ``max``, if `neutral` is the
    operator's identity."""

    _statement = "output_ary[i] = item;"

    @property
    def ary_output_statement(self) -> str:
        """The statement that stores a result."""
        return self._statement


class ExclusiveScanKernel(_ArrayScanKernel):
    """An exclusive scan of an array: :class:`pyopencl.scan.ExclusiveScanKernel`."""

    @property
    def ary_output_statement(self) -> str:
        """The statement that stores a result."""
        return "output_ary[i] = prev_item;"


class ScanTemplate(original.ScanTemplate):
    """A template of scan kernels: :class:`pyopencl.scan.ScanTemplate`, which builds kernels of this module."""

    def build_inner(
        self,
        context: Any,
        type_aliases: Any = (),
        var_values: Any = (),
        more_preamble: str = "",
        more_arguments: Any = (),
        declare_types: Any = (),
        options: Any = None,
        devices: Any = None,
        scan_cls: Any = GenericScanKernel,
    ) -> Any:
        """Build a kernel; ``build`` does the same and keeps it."""
        return super().build_inner(
            context, type_aliases, var_values, more_preamble, more_arguments, declare_types, options, devices, scan_cls
        )


@context_dependent_memoize
def get_cumsum_kernel(context: Any, input_dtype: Any, output_dtype: Any) -> GenericScanKernel:
    """The kernel of ``cumsum``."""
    return GenericScanKernel(
        context,
        output_dtype,
        [VectorArg(input_dtype, "input"), VectorArg(output_dtype, "output")],
        "input[i]",
        "a+b",
        "0",
        "output[i] = item;",
    )
