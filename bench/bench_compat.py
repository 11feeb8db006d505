"""pydp.compat.pyopencl against pyopencl's own modules, in items per second: the same calls on the same arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating

import pydp

_LISTS = """
void generate(LIST_ARG_DECL USER_ARG_DECL index_type i)
{
    int count = i % 4;
    for (int j = 0; j < count; ++j) { APPEND_mylist(count); }
}
"""


def run(device: pydp.Device, quick: bool = False) -> list[Row]:
    """2^22 elements in pyopencl Arrays: each class of both packages, and the launch of a small elementwise kernel."""
    import pyopencl.algorithm
    import pyopencl.array
    import pyopencl.elementwise
    import pyopencl.reduction
    import pyopencl.scan

    from pydp.compat.pyopencl import algorithm, elementwise, reduction, scan

    n = 1 << (18 if quick else 22)
    ours = _cases(device, n, scan, reduction, elementwise, algorithm)
    own = pyopencl
    theirs = _cases(device, n, own.scan, own.reduction, own.elementwise, own.algorithm)
    rows = []
    for case, one in ours.items():
        other = theirs[case]
        np.testing.assert_allclose(one.read(one.call()), other.read(other.call()), rtol=1e-3, err_msg=case)
        candidates: dict[str, Callable[[], Any]] = {
            "pydp": _blocking(device, one.call),
            "pyopencl": _blocking(device, other.call),
        }
        # A scan reads and writes each element once.
        copies = Limits(device).copies(4 * n, *one.scanned) if one.scanned else {}
        seconds = alternating({**candidates, **copies}, repeats=25, budget=6.0)
        for name, copy in copies.items():  # the kernel may copy another number of elements
            seconds[name] *= 2 * 4 * n / copy.work
        spent, launches = seconds["pydp"], "launches" in case
        size, items = (100, 10_000) if launches else (n, n)
        ratios = {peer: took / spent for peer, took in seconds.items() if peer != "pydp"}
        rows.append(
            Row(
                "compat",
                f"{case} of {size}",
                device.name,
                spent,
                items / spent / 1e9,
                "Gitem/s",
                ratios,
            )
        )
    return rows


class Case(NamedTuple):
    """A call, and how to read its result. scanned: the arrays that a scan reads and writes."""

    call: Callable[[], Any]
    read: Callable[[Any], np.ndarray]
    scanned: tuple[Any, ...] = ()


def _cases(device: pydp.Device, n: int, scan: Any, reduction: Any, elementwise: Any, algorithm: Any) -> dict[str, Case]:
    """The calls with one package's modules, and how to read their results."""
    import pyopencl.array as cl_array

    context, queue = device.context, device.queue
    rng = np.random.default_rng(0)
    x = cl_array.to_device(queue, rng.integers(0, 1 << 31, n).astype(np.int32))
    f = cl_array.to_device(queue, rng.random(n, np.float32))
    keys = cl_array.to_device(queue, rng.integers(0, n // 4, n).astype(np.int32))
    values, y, g = cl_array.arange(queue, n, dtype=np.int32), cl_array.zeros_like(x), cl_array.empty_like(f)
    z = y.copy()
    small, few = f[:100], g[:100]
    inclusive = scan.InclusiveScanKernel(context, np.int32, "a+b", neutral="0")
    sort = algorithm.RadixSort(context, "int *ary", key_expr="ary[i]", sort_arg_names=["ary"])
    total = reduction.ReductionKernel(context, np.float32, "0", "a+b", arguments="__global float *in")
    lists = algorithm.ListOfListsBuilder(context, [("mylist", np.int32)], _LISTS, arg_decls=[])
    pairs = algorithm.KeyValueSorter(context)
    scale = elementwise.ElementwiseKernel(context, "float *x, float *y, float a", "y[i] = a * x[i] + 1")

    def launched() -> Any:
        for _ in range(100):
            scale(small, few, np.float32(2))
        return few

    def scaled(a: Any, b: Any) -> Any:
        scale(a, b, np.float32(2))
        return b

    return {
        "InclusiveScanKernel": Case(lambda: inclusive(x, y), _get, (x, y)),
        "InclusiveScanKernel, in place": Case(lambda: inclusive(z), _get, (z, z)),
        "RadixSort": Case(lambda: sort(x)[0][0], _get),
        "copy_if": Case(
            lambda: algorithm.copy_if(x, "ary[i] > 1073741824"), lambda one: one[0].get()[: int(one[1].get())]
        ),
        "ReductionKernel": Case(lambda: total(f), _get),
        "ListOfListsBuilder": Case(lambda: lists(queue, n)[0]["mylist"].lists, _get),
        "KeyValueSorter": Case(lambda: pairs(queue, keys, values, n // 4, starts_dtype=np.int32)[1], _get),
        "ElementwiseKernel": Case(lambda: scaled(f, g), _get),
        "ElementwiseKernel, 100 launches": Case(launched, _get),
    }


def _get(array: Any) -> np.ndarray:
    result: np.ndarray = array.get()
    return result


def _blocking(device: pydp.Device, call: Callable[[], Any]) -> Callable[[], None]:
    def block() -> None:
        call()
        device.queue.finish()

    return block
