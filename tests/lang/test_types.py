"""The type rules: compared with NumPy where they are NumPy's, else with a table."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pydp.lang.ir.types import BOOL, FLOAT32, FLOAT64, INT32, INT64, NoCommonType, Type, common, join, quotient

pytestmark = pytest.mark.host

INTEGERS = [np.dtype(name) for name in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")]
FLOATS = [np.dtype(name) for name in ("f2", "f4", "f8")]
RECORD = np.dtype([("x", "f4")])
OTHER = np.dtype([("y", "f4")])

LITERAL = Type(INT32, True, True)
COUNTER = Type(INT32, True)
WIDE = Type(INT64, True)
POINT = Type(FLOAT32, True)


def typed(name):
    return Type(np.dtype(name))


@pytest.mark.parametrize("left, right", list(itertools.product(INTEGERS, INTEGERS)))
def test_integers_promote_as_numpy(left, right):
    result = np.promote_types(left, right)
    if result.kind == "f":
        with pytest.raises(NoCommonType, match=r"uint64 and int.* no common"):
            common(Type(left), Type(right))
    else:
        assert common(Type(left), Type(right)) == Type(result)


@pytest.mark.parametrize("left, right", list(itertools.product(FLOATS, FLOATS)))
def test_floats_promote_as_numpy(left, right):
    assert common(Type(left), Type(right)) == Type(np.promote_types(left, right))


@pytest.mark.parametrize("left, right", list(itertools.product(INTEGERS, FLOATS)))
def test_an_integer_with_a_float_is_the_float(left, right):
    assert common(Type(left), Type(right)) == common(Type(right), Type(left)) == Type(right)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_a_literal_takes_the_typed_one(dtype):
    # the same as NumPy does with a Python integer
    assert common(LITERAL, Type(dtype)).dtype == (np.zeros(1, dtype) + 1).dtype
    assert join(LITERAL, Type(dtype)).dtype == common(LITERAL, Type(dtype)).dtype


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_counter_never_gets_narrower(dtype):
    result = common(COUNTER, Type(dtype))
    assert result == (Type(dtype) if dtype.itemsize >= 4 else COUNTER)
    assert common(WIDE, Type(dtype)) == (Type(dtype) if dtype.itemsize == 8 else WIDE)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_plain_float_takes_the_typed_float(dtype):
    assert common(POINT, Type(dtype)) == Type(dtype)
    assert common(COUNTER, Type(dtype)) == Type(dtype)


@pytest.mark.parametrize(
    "left, right, result",
    [
        (POINT, typed("i4"), POINT),
        (POINT, typed("u1"), POINT),
        (POINT, typed("i8"), typed("f8")),
        (POINT, typed("u8"), typed("f8")),
        (POINT, COUNTER, POINT),
        (COUNTER, WIDE, WIDE),
        (Type(FLOAT64, True), POINT, Type(FLOAT64, True)),
        (Type(BOOL), typed("f2"), typed("f2")),
        (Type(BOOL), COUNTER, COUNTER),
        (Type(RECORD), Type(RECORD), Type(RECORD)),
    ],
)
def test_mixed(left, right, result):
    assert common(left, right) == common(right, left) == result


@pytest.mark.parametrize(
    "left, right, result",
    [
        ("i4", "i4", typed("f4")),
        ("u1", "i2", typed("f4")),
        ("i8", "i4", typed("f8")),
        ("u8", "u8", typed("f8")),
        ("i8", "f4", typed("f4")),
        ("f2", "i4", typed("f2")),
        ("f8", "f4", typed("f8")),
    ],
)
def test_quotients_of_typed_numbers(left, right, result):
    assert quotient(typed(left), typed(right)) == result


def test_quotients_of_plain_numbers():
    assert quotient(COUNTER, COUNTER) == POINT
    assert quotient(COUNTER, typed("i4")) == typed("f4")
    assert quotient(COUNTER, typed("i8")) == typed("f8")
    assert quotient(LITERAL, typed("f2")) == typed("f2")
    assert quotient(Type(BOOL), Type(BOOL)) == POINT


def test_records_join_with_themselves_only():
    assert join(Type(RECORD), Type(RECORD)) == Type(RECORD)
    for other in (Type(OTHER), typed("f4"), COUNTER, Type(BOOL)):
        with pytest.raises(NoCommonType, match="record"):
            join(Type(RECORD), other)


def test_join_forgets_that_a_value_was_known():
    assert join(LITERAL, LITERAL) == COUNTER
    assert join(Type(BOOL), Type(BOOL)) == Type(BOOL)
    assert join(Type(BOOL), LITERAL) == COUNTER


KINDS = [Type(d) for d in INTEGERS + FLOATS] + [Type(BOOL), LITERAL, COUNTER, WIDE, POINT, Type(FLOAT64, True)]


@pytest.mark.parametrize("left, right", list(itertools.product(KINDS, KINDS)))
def test_join_goes_up_and_settles(left, right):
    """Joining a joined type with its operands changes nothing, so the passes of the translation terminate."""
    try:
        once = join(left, right)
    except NoCommonType:
        with pytest.raises(NoCommonType):
            join(right, left)
    else:
        assert join(once, left) == join(once, right) == join(once, once) == once
        assert join(right, left) == once
