"""Members of records in the front end: the typed form against plain Python, what is refused and what to write then."""

from __future__ import annotations

import numpy as np
import pytest
from front_check import check

import pydp
from pydp.lang.compile import FieldType, NumberType, translate
from pydp.lang.ir.diagnostics import VectorError
from pydp.lang.ir.text import ir_text

pytestmark = pytest.mark.host

REC = np.dtype([("v", "f4", 3), ("m", "i4", (2, 3)), ("tag", "i4")], align=True)
LONG = np.dtype([("v", "f4", 65)])
NAME, OTHER = "tag", 3
N = 7


def records(seed):
    rng = np.random.default_rng(seed)
    made = np.zeros(N, REC)
    for name in REC.names:
        made[name] = rng.integers(0, 9, made[name].shape)
    return made


def everything(idx, out, a):
    i = idx[0]
    k = a[i].tag % 3
    out[i].v[k], out[i].v[2 - k] = a[i].v[2 - k] + 1, a[i]["v"][k]
    out[i].m[k % 2] = a[i].m[1]
    out[i][NAME] += len(a[i].m) * len(a[i].m[0])
    for x in a[i].v:
        out[i].v[1] += x


def indexes_with_effects(idx, out, a):
    """The index of the item is read after the element's, and stores in between count."""
    i = idx[0]
    out[count(a, i)].v[count(a, i) % 3] = count(a, i)


def count(a, i):
    a[i].tag = (a[i].tag + 1) % 7
    return a[i].tag


@pytest.mark.parametrize("kernel", [everything, indexes_with_effects], ids=lambda kernel: kernel.__name__)
def test_the_typed_form(kernel):
    check(kernel, 1 if kernel is indexes_with_effects else N, None, records(0), records(1))


def test_the_text_of_the_typed_form():
    def item(idx, out, k):
        out[idx].m[1, 2] = out[idx].v[0]
        out[idx].v[k] = 2

    text = ir_text(translate(item, 1, None, [FieldType(REC, 1), NumberType(np.dtype("i4"), True)]))
    assert ".m[1][2] = int32(out[global[0]].v[0])" in text
    assert text.count(".v[0] = 2") == text.count(".v[2] = 2") == 1


def test_a_name_outside_is_read_again_when_it_changes():
    def read(idx, out, a):
        out[idx] = a[idx][WHICH]  # noqa: F821

    scope = {**globals(), "WHICH": "x"}
    fn = type(read)(read.__code__, scope, "read")
    a = np.array([(1.0, 2.0)], [("x", "f4"), ("y", "f4")])
    out = np.zeros(1, np.float32)
    for name, wanted in (("x", 1), ("y", 2), ("x", 1)):
        scope["WHICH"] = name
        pydp.forall(1, fn, out, a, device="host")
        assert out[0] == wanted


def outside(idx, r):
    r[idx].v[3] = 1


def outside_read(idx, r):
    r[idx].tag = r[idx].m[0, -4]


def too_many(idx, r):
    r[idx].v[0, 1] = 1


def too_many_read(idx, r):
    r[idx].tag = r[idx].v[0, 1]


def not_an_array(idx, r):
    r[idx].tag[0] = 1


def no_member(idx, r):
    r[idx]["w"] = 1


def no_member_read(idx, r):
    r[idx].tag = r[idx]["w"]


def of_the_array(idx, r):
    r[idx].tag = r["tag"][idx[0]]


def of_the_array_too(idx, r):
    r[idx].tag = r.tag[idx[0]]


def a_copy(idx, r):
    v = r[idx].v
    v[0] = 1


def wrong_count(idx, r):
    r[idx].v = (1, 2)


def by_number(idx, r):
    r[idx].tag = r[idx][0]


def of_a_number(idx, r):
    i = idx[0]
    r[idx].tag = i["x"]


def as_a_number(idx, r):
    r[idx].tag = r[idx].v + 1


def a_tuple(idx, r):
    r[idx] = (r[idx].v, r[idx].m, 1)


def a_dict(idx, r):
    r[idx] = {"tag": 1}


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (outside, "index 3 is out of bounds for an array member 'v' of 3"),
        (outside_read, "index -4 is out of bounds for an array member 'm' of 3"),
        (too_many, "'v' has no axis for index 1; it is not an array"),
        (too_many_read, "the array member has 1 axes, but 2 indexes are given"),
        (not_an_array, "'tag' has no axis for index 0; it is not an array"),
        (no_member, "there is no member 'w' to assign; the record has v, m, tag"),
        (no_member_read, "the record has no member 'w'; it has v, m, tag"),
        (of_the_array, "has no members; index an element first: r[i]['tag']"),
        (of_the_array_too, "has no members; index an element first: r[i].tag"),
        (a_copy, "the items of a tuple cannot be assigned"),
        (wrong_count, "member 'v' has 3 items and cannot be assigned a tuple of 2"),
        (by_number, "record cannot be indexed; write r.x or r['x'] for a member"),
        (of_a_number, "a number has no member 'x'; only records have members"),
        (as_a_number, "a number is needed here, not a tuple of 3; index it"),
        (a_tuple, "or make a record: pydp.record(dtype, ...)"),
        (a_dict, "use a record, pydp.record(dtype, member=value)"),
    ],
    ids=lambda item: item.__name__ if callable(item) else "",
)
def test_what_cannot_be_is_refused_at_its_place(kernel, says):
    with pytest.raises(VectorError) as caught:
        translate(kernel, 1, None, [FieldType(REC, 1)])
    text = str(caught.value)
    assert says in text and "^" in text, text


def test_long_members_take_constants_only():
    def constant(idx, r):
        r[idx].v[64] = r[idx].v[0]

    def variable(idx, r):
        r[idx].v[idx[0]] = 1

    def variable_read(idx, r):
        r[idx].v[0] = r[idx].v[idx[0]]

    translate(constant, 1, None, [FieldType(LONG, 1)])
    for kernel in (variable, variable_read):
        with pytest.raises(VectorError, match=r"'v' of 65.* cannot be indexed by a variable; .* as arrays"):
            translate(kernel, 1, None, [FieldType(LONG, 1)])


def test_a_read_only_array_keeps_its_members():
    with pytest.raises(VectorError, match="'r' is read-only"):
        translate(lambda_like, 1, None, [FieldType(REC, 1, (), False)])


def lambda_like(idx, r):
    r[idx].v[idx[0] % 3] = 1


def apart(idx, out):
    """Neighbours write other items of one record."""
    out[idx[0] // 3].v[idx[0] % 3] = idx[0]


def together(idx, out):
    out[idx[0] // 3].v[idx[0] % 2] = idx[0]


def test_checked_mode_tells_items_of_one_record_apart():
    for dtype in (REC, [("v", "f4", 3)]):
        out = np.zeros(2, dtype)
        with pydp.checked():
            pydp.forall(6, apart, out)
            assert (out["v"].ravel() == np.arange(6)).all()
            with pytest.raises(pydp.PydpError, match=r"race: lane .0. writes 0.0 to .* and lane .2. writes 2.0"):
                pydp.forall(6, together, out)
