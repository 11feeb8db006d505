"""The shapes and the policy of matmul, without a device."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pydp import local_memory as lds
from pydp.algorithms.matmul.policy import FAMILY, rounded_size
from pydp.algorithms.matmul.problem import (
    Matrix,
    Product,
    arithmetic,
    factor,
    parts_of,
    product,
    result_dtype,
    result_shape,
)
from pydp.algorithms.matmul.spec import MatmulProblem, MatmulSpec
from pydp.algorithms.matmul.staging import bank_note, read_width, reads_along_k, reads_of, register_limit
from pydp.errors import InvalidArgument
from pydp.model.architectures import by_target
from pydp.model.ranking import rank

pytestmark = pytest.mark.host

CPU = SimpleNamespace(
    kind="cpu", mapping="vector", compute_units=2, max_group_size=4096, local_bytes=1 << 18, l1_bytes=48 << 10,
    l1_ways=12, l2_bytes=2 << 20, l2_ways=16,
    simd_bytes=64, vector_registers=32, banks=1, bank_bytes=4, loop_limit=None, tensor_cores=0,
)  # fmt: skip
GPU = SimpleNamespace(
    kind="gpu", mapping="simt", compute_units=132, max_group_size=1024, local_bytes=48 << 10, l1_bytes=32 << 10,
    l1_ways=8, l2_bytes=50 << 20, l2_ways=8,
    simd_bytes=16, vector_registers=128, banks=32, bank_bytes=4, loop_limit=None, tensor_cores=0,
)  # fmt: skip


def _other(base: SimpleNamespace, **changes: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(base), **changes})


PROFILES = [
    CPU,
    _other(CPU, simd_bytes=32, vector_registers=16, l1_bytes=32 << 10, l2_bytes=256 << 10, compute_units=64),
    _other(CPU, simd_bytes=16, vector_registers=32, compute_units=8),
    _other(CPU, simd_bytes=32, vector_registers=16, local_bytes=32 << 10, loop_limit=65535, max_group_size=1024),
    GPU,
    _other(GPU, compute_units=8, local_bytes=16 << 10, max_group_size=256),
    _other(GPU, kind="accelerator", compute_units=1, local_bytes=32 << 10),
    _other(GPU, tensor_cores=90),
]


def _value(one: Product, x: Any, flat: np.ndarray, batch: tuple[int, ...], i: int, j: int) -> Any:
    return flat[x.offset + sum(b * s for b, s in zip(batch, x.batch, strict=True)) + i * x.row + j * x.col]


@settings(max_examples=60)
@given(st.data())
def test_the_normal_form_walks_the_same_elements(data: st.DataObject) -> None:
    sizes = st.integers(0, 3)
    batch = data.draw(st.lists(sizes, max_size=3))
    m, n, k = (data.draw(st.integers(0, 4)) for _ in range(3))
    drop_a, drop_b = data.draw(st.integers(0, len(batch))), data.draw(st.integers(0, len(batch)))
    ones = [data.draw(st.booleans()) for _ in batch]
    shape_a = [*[1 if one else size for one, size in zip(ones, batch, strict=True)][drop_a:], m, k]
    shape_b = [*batch[drop_b:], k, n]
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, shape_a), rng.integers(-9, 9, shape_b)
    if data.draw(st.booleans()):
        a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    expected = np.matmul(a, b)
    assert result_shape(a.shape, b.shape) == expected.shape
    flat_a = np.ravel(a if a.flags.c_contiguous else a.swapaxes(-1, -2))
    c = np.zeros(expected.shape, np.int64)
    views = [(x.shape, tuple(s // 8 for s in x.strides), 0) for x in (a, b, c)]
    for one in (product(*views), product(*views).transposed()):
        flat_b, left, right = np.ravel(b), flat_a, None
        right = flat_b
        if one.swapped:
            left, right = right, left
        flat_c = np.zeros(expected.size, np.int64)
        for index in itertools.product(*(range(size) for size in one.batch)):
            for i, j in itertools.product(range(one.m), range(one.n)):
                at = one.c.offset + sum(x * s for x, s in zip(index, one.c.batch, strict=True))
                flat_c[at + i * one.c.row + j * one.c.col] += sum(
                    int(_value(one, one.a, left, index, i, x)) * int(_value(one, one.b, right, index, x, j))
                    for x in range(one.k)
                )
        assert np.array_equal(flat_c.reshape(expected.shape), expected)


def test_a_batch_with_one_right_matrix_is_one_tall_product() -> None:
    one = product(((5, 6, 7), (42, 7, 1), 0), ((7, 3), (3, 1), 0), ((5, 6, 3), (18, 3, 1), 0))
    assert (one.m, one.batch) == (30, ())


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128", "int8"])
def test_the_policy_gives_specializations_that_can_run(profile: Any, dtype: str) -> None:
    for m, n, k in itertools.product((1, 4, 128, 8192), (1, 64, 8192), (0, 64, 1 << 17)):
        options: list[dict[str, Any]] = [{}, {"mapping": "vector"}, {"mapping": "simt"}, {"thin": True, "dots": True}]
        for batches, wanted in itertools.product((1, 512), options):
            if "thin" in wanted and m > 4:
                continue
            problem = MatmulProblem(dtype, batches, m, n, k, **wanted)
            spec = FAMILY.default(profile, problem)
            assert FAMILY.check(profile, problem, spec) is None, (spec, FAMILY.check(profile, problem, spec))
            if m * n == 8192 * 64:
                found = FAMILY.candidates(profile, problem)
                assert spec in found and len(set(found)) == len(found)


def test_blocks_take_whole_ways_of_the_caches() -> None:
    large = MatmulProblem("float32", 1, 8192, 8192, 8192)
    # A fifth of L1 holds 409 steps of six rows, in three of its twelve ways; 6 of L2's 16 ways of 128 KiB hold 512
    # columns of 384.
    spec = FAMILY.default(CPU, large)
    assert (spec.rows, spec.tile_k, spec.tile_n) == (6, 384, 512)
    assert FAMILY.default(_other(CPU, l1_ways=6), large).tile_k == 320  # one way of 8 KiB
    assert FAMILY.default(_other(CPU, l2_ways=4), large).tile_n == 640  # two ways of 512 KiB
    assert FAMILY.default(_other(CPU, l2_ways=1), large).tile_n == 1344  # all of it


def test_blocks_of_shallow_products_are_wider_if_the_cache_holds_them() -> None:
    for l2_bytes in (128 << 10, 256 << 10, 1 << 20):
        for k in (64, 100, 128):
            profile = _other(CPU, l2_bytes=l2_bytes)
            spec = FAMILY.default(profile, MatmulProblem("float64", 1, 4096, 4096, k))
            assert spec.method == "packed" and 8 * k * spec.tile_n <= l2_bytes * 3 // 4
    assert spec.tile_n == 512 > FAMILY.default(profile, MatmulProblem("float64", 1, 4096, 4096, 4096)).tile_n


def test_register_tiles_fit_the_registers() -> None:
    for profile in PROFILES[:3]:
        for dtype in ("float32", "float64", "complex64"):
            how = arithmetic(np.dtype(dtype))
            spec = FAMILY.default(profile, MatmulProblem(dtype, 1, 2048, 2048, 2048))
            held = spec.rows * spec.columns // spec.width * how.planes
            assert profile.vector_registers * 5 // 8 <= held <= profile.vector_registers - 4
            assert spec.tile_k * spec.tile_n * how.item_bytes <= profile.l2_bytes * 3 // 4


def test_products_that_fit_the_caches_are_not_packed() -> None:
    newer, older = (
        replace(
            by_target("avx512")[0], compute_units=2, l1_bytes=l1 << 10, l1_ways=ways, l2_bytes=l2 << 20, l2_ways=ways
        )
        for l1, l2, ways in ((48, 2, 12), (32, 1, 8))
    )
    for profile in (newer, older):
        for batches, size in [(10_000, 16), (1_000, 64), (100, 256), (1, 256)]:
            problem = MatmulProblem("float32", rounded_size(batches), size, size, size)
            spec = rank(FAMILY, profile, problem)[0].spec
            assert (spec.mapping, spec.method) == ("vector", "direct"), (problem, spec)
            assert spec.rows * spec.columns // spec.width <= profile.vector_registers - 4
            strided = replace(problem, strided=True)
            assert {spec.method for spec in FAMILY.candidates(profile, strided)} == {"packed", "staged"}
    # B of 512 KiB: a quarter of one L2, half of the other.
    middle = MatmulProblem("float64", 1, 256, 256, 256)
    assert [FAMILY.default(profile, middle).method for profile in (newer, older)] == ["direct", "packed"]
    wide = MatmulProblem("float32", 1, 4096, 2048, 16)  # rows of two pages
    assert FAMILY.default(newer, wide).method == "packed"


def test_constraints_of_single_fields() -> None:
    problem = MatmulProblem("float32", 1, 2, 512, 512, thin=True)
    thin = FAMILY.default(CPU, problem)
    assert thin.method == "thin" and FAMILY.check(CPU, problem, thin) is None
    assert "at most columns" in (FAMILY.check(CPU, problem, replace(thin, tile_n=thin.columns + 1)) or "")
    assert "rows of the product" in (FAMILY.check(CPU, problem, replace(thin, rows=1)) or "")
    assert "lanes_m and lanes_n are 2 and 1" in (FAMILY.check(CPU, problem, replace(thin, lanes_m=2)) or "")
    square = MatmulProblem("float32", 1, 512, 512, 512)
    staged = next(spec for spec in FAMILY.candidates(GPU, square) if spec.mapping == "simt" and spec.width == 4)
    assert "must divide rows, columns and pad" in (FAMILY.check(GPU, square, replace(staged, pad=2)) or "")


def test_check_names_what_is_wrong() -> None:
    problem = MatmulProblem("float32", 1, 128, 128, 128)
    good = MatmulSpec("simt", "staged", 32, 32, 8, 4, 4, 8, 8, width=4)
    assert FAMILY.check(GPU, problem, good) is None
    for change, words in [
        ({"tile_m": 0}, "tile_m is 0"), ({"lanes_m": 64}, "tile_m"), ({"tile_k": 4096}, "local memory"),
        ({"width": 3}, "width is 3"), ({"pad": -1}, "pad is -1"),
        ({"method": "thin"}, "'staged' or 'mma' are accepted"),
        ({"mapping": "vector", "method": "packed", "width": 5}, "width is 5"),
        ({"mapping": "vector", "method": "direct", "width": 2, "columns": 32}, "lanes_m and lanes_n"),
        ({"mapping": "vector", "method": "direct", "width": 2, "columns": 32, "lanes_m": 1, "lanes_n": 1},
         "at most 8 * width"),
        ({"rows": 2.5}, "rows is 2.5"), ({"buffers": 3}, "buffers is 3"), ({"barriers": "all"}, "barriers is 'all'"),
    ]:  # fmt: skip
        assert words in (FAMILY.check(GPU, problem, replace(good, **change)) or ""), change


def test_size_classes() -> None:
    assert [rounded_size(x) for x in (0, 1, 7, 8, 9, 16, 17, 1000)] == [0, 1, 7, 8, 16, 16, 32, 1024]


def test_result_dtypes_are_numpys() -> None:
    names = ["?", "i1", "u1", "i2", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
    for left, right in itertools.product(names, names):
        assert (
            result_dtype(np.dtype(left), np.dtype(right))
            == np.matmul(np.ones((1, 1), left), np.ones((1, 1), right)).dtype
        )
    for bad in ("O", "U3", "M8[s]", "V4", "g"):
        with pytest.raises(InvalidArgument, match="accepted"):
            result_dtype(np.dtype(bad), np.dtype("f4"))


def test_factors() -> None:
    assert parts_of(factor(-1, np.dtype("i4"), "alpha"), arithmetic(np.dtype("i4"))) == (2**32 - 1, 0)
    assert factor(np.float32(0.5), np.dtype("f8"), "alpha") == 0.5
    assert factor(1 - 2j, np.dtype("c8"), "alpha") == 1 - 2j
    for value, dtype in [(0.5, "i4"), (300, "i1"), (-1, "u4"), (2, "?"), (1j, "f4"), ([1, 2], "f4"), (None, "f4")]:
        with pytest.raises(InvalidArgument, match="alpha is"):
            factor(value, np.dtype(dtype), "alpha")


def test_staged_rows_are_free_of_bank_conflicts() -> None:
    for dtype in ("float32", "float64", "complex64"):
        how = arithmetic(np.dtype(dtype))
        problem = MatmulProblem(dtype, 1, 2048, 2048, 2048)
        for spec in FAMILY.candidates(GPU, problem):
            free = ": conflict degree 1," in bank_note(GPU, how, spec)
            assert free or spec.tile_m < 32, spec  # no padding serves stores of two short rows at a time
        assert "conflict degree 1," in bank_note(GPU, how, FAMILY.default(GPU, problem))
        assert {spec.buffers for spec in FAMILY.candidates(GPU, problem)} == {1, 2}


@pytest.mark.parametrize("banks", [lds.GPU, lds.NONE])
def test_lanes_read_each_element_of_a_tile_once(banks: lds.Banks) -> None:
    cases = [(128, 8, 256, 4), (64, 8, 64, 4), (128, 16, 128, 2), (32, 8, 64, 4), (16, 32, 256, 2), (12, 5, 16, 1)]
    for (size, tile_k, group, block), along_k in itertools.product(cases, (False, True)):
        spec = MatmulSpec("simt", "staged", size, size, tile_k, 1, 1, group, 1, block)
        for width in {1, block} if (tile_k if along_k else size) % block == 0 else {1}:
            reads = reads_of(banks, spec, 4, size, along_k, width)
            places = [reads.place(e) for e in range(size * tile_k // width)]
            step = [(0, 1) if along_k else (1, 0)] * width
            found = {(x + i * dx, y + i * dy) for x, y in places for i, (dx, dy) in enumerate(step)}
            assert found == set(itertools.product(range(size), range(tile_k)))
            params = reads.params()
            assert params["count"] == -(-len(places) // group)
            assert params["ragged"] == (len(places) % group != 0)
            if params["next_x"] is not None and not params["ragged"]:
                for e in range(len(places) - group):
                    x, y = places[e]
                    assert places[e + group] == (x + params["next_x"], y + params["next_y"])


def test_vectors_are_read_where_none_crosses_an_edge() -> None:
    spec = MatmulSpec("simt", "staged", 128, 128, 8, 8, 8, 16, 16, 4, 8, 4)
    row = Matrix(0, 4096, 1, (1 << 24,))

    def width(
        operand: Matrix, size: int = 4096, k: int = 4096, is_b: bool = False, dtype: Any = "f4", **given: int
    ) -> int:
        return read_width(replace(spec, **given), np.dtype(dtype), operand, size, k, 128, is_b)

    assert reads_along_k(row, False) and not reads_along_k(row, True)
    assert not reads_along_k(row.transposed(), False) and reads_along_k(row.transposed(), True)
    for is_b, operand in itertools.product((False, True), (row, row.transposed())):
        assert width(operand, is_b=is_b) == 4
        along_k = reads_along_k(operand, is_b)
        assert width(operand, 4094, 4096, is_b) == (4 if along_k else 2)
        assert width(operand, 4096, 4095, is_b) == (1 if along_k else 4)
        assert width(replace(operand, offset=2), is_b=is_b) == 2 and width(replace(operand, offset=3), is_b=is_b) == 1
        assert width(replace(operand, batch=(6,)), is_b=is_b) == 2
        assert width(operand, is_b=is_b, dtype="f8") == width(operand, is_b=is_b, dtype="c8") == 2
        assert width(operand, is_b=is_b, dtype="c16") == 1 and width(operand, is_b=is_b, dtype="i1") == 4
        assert width(operand, is_b=is_b, width=2, pad=2) == 2
    assert width(Matrix(0, 4096, 2, ())) == width(Matrix(0, 4095, 1, ())) == 1
    assert width(row, tile_k=6) == 2


def test_registers_are_limited_where_two_groups_then_fit() -> None:
    how, spec = arithmetic(np.dtype("f4")), MatmulSpec("simt", "staged", 128, 128, 8, 8, 8, 16, 16, 4, 8, 4)
    nvidia = _other(GPU, extensions={"cl_nv_compiler_options"})
    assert register_limit(nvidia, how, spec) == ("-cl-nv-maxrregcount=128",)
    assert register_limit(_other(GPU, extensions=set()), how, spec) == ()
    for other in (replace(spec, tile_m=256, rows=16), replace(spec, tile_m=64, tile_n=64, rows=4, columns=4)):
        assert register_limit(nvidia, how, other) == ()
