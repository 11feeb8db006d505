"""Owner-write exchange: placements against the bank model and the R700's formula, and kernels that use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_banks import _turns

from pydp.dtypes import c_name
from pydp.errors import InvalidArgument
from pydp.groups.barrier_plan import barrier_params
from pydp.local_memory import GPU, NONE, Banks, Exchange, degree, exchange
from pydp.runtime.programs.program import kernel
from pydp.runtime.programs.template import add_folder

add_folder(Path(__file__).parent)
R700 = Banks(4, 16, 4)
BANKS = {"R700": R700, "GPU": GPU, "none": NONE}


@pytest.mark.host
@given(
    st.sampled_from([GPU, R700, NONE, Banks(16, 4, 16)]),
    st.integers(1, 8),
    st.integers(1, 5),
    st.integers(1, 20),
    st.sampled_from([1, 2, 4, 8, 16]),
)
def test_slots_lie_apart_and_stores_never_conflict(banks: Banks, waves: int, few: int, slots: int, item: int) -> None:
    wave = 1 << few
    for found in (exchange(banks, waves * wave, slots, item), exchange(banks, waves * wave, slots, item, wave=wave)):
        lanes, numbers = range(found.wave), range(found.lanes // found.wave)
        places = [found.offset(lane, slot, number) for number in numbers for lane in lanes for slot in range(slots)]
        assert len(set(places)) == len(places) and set(places) <= set(range(found.size))
        assert found.degree == 1
        for slot in range(slots):
            addresses = [item * found.offset(lane, slot) for lane in lanes]
            assert degree(banks, addresses, item) == 1


@pytest.mark.host
@given(st.sampled_from([GPU, R700]), st.integers(1, 20), st.data())
def test_slots_that_lanes_pick_themselves_do_not_conflict(banks: Banks, slots: int, data: Any) -> None:
    found = exchange(banks, 64, slots, banks.width)
    picked = data.draw(st.lists(st.integers(0, slots - 1), min_size=64, max_size=64))
    assert _turns(banks, [banks.width * found.offset(lane, slot) for lane, slot in enumerate(picked)]) == 1


@pytest.mark.host
@pytest.mark.parametrize("stride", [4, 8, 64])
def test_the_r700s_placement(stride: int) -> None:
    found = exchange(R700, 64, stride, 4)
    for thread in range(64):
        for index in range(0, stride, 4):
            bank, offset = thread % 4, thread // 4 * stride + index  # offset in dwords
            flat = (offset // 4 * 4 + bank) * 4  # entries of 4 dwords, neighbouring banks side by side
            assert [found.offset(thread, index + k) for k in range(4)] == [flat + k for k in range(4)]


@pytest.mark.host
@pytest.mark.parametrize(("block", "item"), [(32, 1), (32, 2), (32, 4), (16, 8), (16, 4), (16, 16)])
def test_transposes_are_padded_until_they_are_free(block: int, item: int) -> None:
    rows = 8

    def turned(lane: int) -> tuple[int, int]:
        x, y = lane % block, lane // block
        return x % rows * block + y, x // rows

    bare = Exchange(block * rows, block // rows, *_shape(block, rows, item), 0, block * rows)
    found = exchange(GPU, block * rows, block // rows, item, [turned])
    before = degree(GPU, [item * bare.offset(*turned(lane)) for lane in range(block * rows)], item)
    assert found.degree == 1 and before > 1 and found.pad > 0, (before, found)


def _shape(block: int, rows: int, item: int) -> tuple[int, int]:
    found = exchange(GPU, block * rows, block // rows, item)
    return found.across, found.entry


@pytest.mark.host
def test_what_cannot_be_is_refused() -> None:
    for wrong in ((0, 1, 4, None), (8, 0, 4, None), (8, 1, 0, None), (8, 1, 4, 3), (8, 1, 4, 0)):
        with pytest.raises(InvalidArgument, match="accepted"):
            exchange(GPU, *wrong[:3], wave=wrong[3])


def blocks(device: Any, name: str, test: str, **given: object) -> Any:
    """A kernel of blocks.mako; templates are strict, so that what another test's kernel takes is given too."""
    others = {"x": None, "waves": 1, "runs": 0, "bins": 1, "count": 1, "buffers": 1, "operator": ""}
    return kernel(device, "blocks.mako", name, {**others, "test": test, **given})


def _run(device: Any, banks: Banks, lanes: int, slots: int, dtype: Any, wave: int | None, subgroup: int | None) -> None:
    rng, groups = np.random.default_rng(lanes + slots), 3
    found = exchange(banks, lanes, slots, np.dtype(dtype).itemsize, wave=wave)
    params = barrier_params(device.profile, lanes, {"exchange": wave or lanes}, subgroup=subgroup)
    given = {"type": c_name(np.dtype(dtype)), "lanes": lanes, "x": found.params(), **params}
    made = blocks(device, "exchanged", "exchange", **given)
    values = rng.integers(0, 100, (groups, lanes, slots)).astype(dtype)
    origin = np.concatenate([rng.permutation(wave or lanes) for _ in range(lanes // (wave or lanes))]).astype(np.int32)
    out = launch(device, made, groups * lanes, lanes, [values, origin], values.shape, dtype)
    first = 0 if wave is None else np.arange(lanes) // wave * wave
    expected = np.roll(values, -1, axis=2)[:, first + origin]
    np.testing.assert_array_equal(out, expected)


def launch(device: Any, made: Any, items: int, group: int, inputs: list[Any], shape: Any, dtype: Any) -> np.ndarray:
    """Runs a kernel whose arguments are the inputs (arrays or scalars), then the output."""
    import pydp

    fields = [pydp.field(one, device=device) if isinstance(one, np.ndarray) else one for one in inputs]
    out = pydp.field(np.zeros(shape, dtype), device=device)
    args = [one if isinstance(one, np.generic) else one.array.data for one in (*fields, out)]
    made.enqueue(device.queue, (items,), (group,), args)
    return np.asarray(out.get())


@pytest.mark.oclgrind
@pytest.mark.parametrize("banks", BANKS)
@pytest.mark.parametrize("wave", [None, 8])
def test_exchanges(device: Any, banks: str, wave: int | None) -> None:
    _run(device, BANKS[banks], 32, 3, np.int32, wave, None)


@pytest.mark.oclgrind
def test_padded_rows_of_several_runs(device: Any) -> None:
    """A rotation by a number that no plain placement reads without conflicts."""
    found = exchange(GPU, 128, 2, 16, [lambda lane: (lane % 8 * 16 + lane // 16, lane % 16 // 8)])
    assert found.degree == 1 and found.by_slot and found.pad and found.across == 16
    x = np.arange(128 * 2 * 2, dtype=np.int64).reshape(128, 2, 2)
    params = barrier_params(device.profile, 128, {"exchange": 128})
    made = blocks(device, "exchanged", "exchange", type="long2", lanes=128, x=found.params(), **params)
    origin = np.roll(np.arange(128, dtype=np.int32), 5)
    got = launch(device, made, 128, 128, [x, origin], x.shape, np.int64)
    np.testing.assert_array_equal(got, x[origin][:, ::-1])


@pytest.mark.parametrize("banks", BANKS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_types_and_shapes(device: Any, banks: str, dtype: Any) -> None:
    for lanes, slots, wave in ((64, 8, None), (48, 5, 16)):
        _run(device, BANKS[banks], lanes, slots, dtype, wave, None)


def test_relative_exchanges_meet_in_subgroups(device: Any) -> None:
    for size in needs.subgroups(device, 64):
        _run(device, GPU, 64, 4, np.int32, size, size)
