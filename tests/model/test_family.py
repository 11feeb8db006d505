"""Problems: their texts, with which measurements are stored, and the fields that these come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from pydp.algorithms.histogram.policy import HistogramProblem
from pydp.algorithms.matmul.spec import MatmulProblem
from pydp.algorithms.reduce.policy import ReduceProblem
from pydp.algorithms.scan.policy import ScanProblem
from pydp.algorithms.sort.policy import SortProblem
from pydp.algorithms.transpose.counts import TransposeProblem
from pydp.model.family import Problem
from pydp.tuning.shape_class import shape_class

pytestmark = pytest.mark.host


@dataclass(frozen=True)
class ToyProblem(Problem):
    family: ClassVar[str] = "toy"
    n: int
    depth: int | None
    wide: bool = False
    turns: int = 0
    mapping: str | None = None


@pytest.mark.parametrize(
    ("problem", "text", "stored"),
    [
        (
            MatmulProblem("float32", 3, 4, 64, 100, thin=True, dots=True, mapping="vector", method="packed"),
            "matmul float32 3x4x64x100 thin dots mapping=vector method=packed",
            "matmul float32 4x4x64x128 dots mapping=vector method=packed thin",
        ),
        (MatmulProblem("int8", 1, 64, 64, 0), "matmul int8 1x64x64x0", "matmul int8 1x64x64x0"),
        (
            ScanProblem("uint8,int64", 3, 20, 8, 5, True, True, True, True, True),
            "scan uint8,int64 3x20x8x5 exclusive segments in_place record vectors",
            "scan uint8,int64 8x1048576x8x8 exclusive in_place record segments vectors",
        ),
        (
            ScanProblem("int32", 0, 24, 4, 0, vectors=True),
            "scan int32 0x24x4x0 vectors",
            "scan int32 1x16777216x4x0 vectors",
        ),
        (
            ReduceProblem("[('a', '<f4')]", 1024, 3, 4, commutes=True, columns=True),
            "reduce [('a', '<f4')] 1024x3x4 commutes columns",
            "reduce [('a', '<f4')] 1024x4x4 columns commutes",
        ),
        (ReduceProblem("float32", 1024, 1, None), "reduce float32 1024x1", "reduce float32 1024x1"),
        (
            SortProblem("int32", 1024, 1, 12, records_lost_in_arrays=True, rounds=123),
            "sort int32 1024x1x12 records_lost_in_arrays rounds=123",
            "sort int32 1024x1x16 records_lost_in_arrays rounds=123",
        ),
        (
            HistogramProblem("uint8", 1024, 7, values=True, uneven=True, weights=True),
            "histogram uint8 1024x7 values uneven weights",
            "histogram uint8 1024x8 uneven values weights",
        ),
        (TransposeProblem("V4", 1024, 300), "transpose V4 1024x300", "transpose V4 1024x512"),
    ],
)
def test_texts_by_which_measurements_are_found(problem: Problem, text: str, stored: str) -> None:
    """A change of these texts would make the measurements of users and the shipped ones useless."""
    assert str(problem) == text
    assert str(shape_class(problem)) == stored


def test_sizes_and_options_are_fields() -> None:
    plain, full = ToyProblem("f4", 5, None), ToyProblem("f4", 5, 0, wide=True, turns=3, mapping="simt")
    assert (plain.sizes, plain.flags, str(plain)) == ((5,), (), "toy f4 5")
    assert (full.sizes, full.flags, str(full)) == ((5, 0), ("wide", "turns=3", "mapping=simt"), str(full))
    assert plain.lengths == (5,) and plain == ToyProblem("f4", 5, None) and plain != full
    assert len({plain, ToyProblem("f4", 5, None), full}) == 2


def test_problems_of_smaller_sizes() -> None:
    assert ToyProblem("f4", 512, None, wide=True).smaller(0.55, 64) == ToyProblem("f4", 281, None, wide=True)
    assert ToyProblem("f4", 64, 100).smaller(0.55, 64) == ToyProblem("f4", 64, 55)
    scan = ScanProblem("int32", 0, 24, 100, 0)
    assert scan.smaller(0.55, 64) is scan
