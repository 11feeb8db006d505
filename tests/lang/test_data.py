"""Members of records, places in the source, and integers of a type's width."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pydp.lang.ir.data import Item, Variable, Where, member_dtype, member_of, wrap

pytestmark = pytest.mark.host

REC = np.dtype([("a", "i4"), ("m", "f4", (2, 3)), ("r", [("x", "i2"), ("y", "f8", (4,))], (2,))])


def test_types_of_members() -> None:
    assert member_dtype(REC, ()) == REC
    assert member_dtype(REC, ("a",)) == np.int32
    assert member_dtype(REC, ("m", Item("1"))) == np.dtype(("f4", (3,)))
    assert member_dtype(REC, ("m", Item("1"), Item("2"))) == np.float32
    assert member_dtype(REC, ("r", Item("0"), "y", Item("3"))) == np.float64


def test_members_are_views_of_the_records() -> None:
    records = np.zeros((2, 5), REC)
    records["m"] = np.arange(60).reshape(2, 5, 2, 3)
    records["r"]["y"] = np.arange(80).reshape(2, 5, 2, 4)
    np.testing.assert_array_equal(member_of(records, REC, ("m", Item("1"), Item("2"))), records["m"][:, :, 1, 2])
    np.testing.assert_array_equal(member_of(records, REC, ("m", Item("0"))), records["m"][:, :, 0])
    found = member_of(records, REC, ("r", Item("1"), "y", Item("3")))
    np.testing.assert_array_equal(found, records["r"]["y"][:, :, 1, 3])
    found[1, 2] = -1
    assert records["r"]["y"][1, 2, 1, 3] == -1
    assert member_of(records[1, 2], REC, ("r", Item("1"), "y", Item("3"))) == -1


@pytest.mark.parametrize("name", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integers_wrap_as_numpys(name: str) -> None:
    dtype = np.dtype(name)
    edges = [2**k + more for k in (0, 7, 8, 15, 16, 31, 32, 63, 64) for more in (-1, 0, 1)]
    for value in [*edges, *(-one for one in edges)]:
        wanted = int(np.array(value % 2**64, np.uint64).astype(dtype))
        assert wrap(value, dtype) == wanted, value


def test_places_as_text() -> None:
    assert str(Where("k.py", 7, 4, "    x = 1", "f")) == "k.py:7 in f"


def test_marks_of_the_front_end_tell_no_variables_apart() -> None:
    one = Variable("x", np.dtype("i4"))
    assert one == dataclasses.replace(one, synthetic=True, weak=True)
    assert one != dataclasses.replace(one, dtype=np.dtype("i8"))
