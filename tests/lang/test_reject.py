"""Wrong vector functions are refused with the line that is wrong, and right ones near them are not.

The line is the one that ends in `# here`; several expected lines are alternatives.
"""

# ruff: noqa: B021, E731, F821, F841, RUF005, RUF059, SIM105, SIM108, UP037

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

import pydp
from pydp.lang.diagnostics import VectorError
from pydp.lang.front import FieldType, NumberType, TupleType, translate

pytestmark = pytest.mark.host

F32, I32, U64, F64 = (np.dtype(name) for name in ("f4", "i4", "u8", "f8"))
REC = np.dtype([("x", "f4"), ("n", "i4")])
OTHER = np.dtype([("y", "f4")])
TABLE = [1, 2, 3]
ARRAY = np.zeros(3)
NAMES = {"a": 1}
WEIGHTS = (1.0, 2.0, 3.0)

C = FieldType(F32, 2)
A = FieldType(F32, 2, (), False)
T = FieldType(F32, 2, ((16, 16),))
V = FieldType(I32, 1)
R = FieldType(REC, 1)
L = FieldType(np.dtype("i8"), 1)
INT = NumberType(I32, True)
REAL = NumberType(F64, True)

WRONG: list[tuple] = []
RIGHT: list[tuple] = []


def wrong(says, *types, rank=2, group=None):
    """A function that must be refused with a message that has `says` in it."""
    return lambda fn: WRONG.append((fn, says, types, rank, group)) or fn


def right(*types, rank=2, group=None):
    return lambda fn: RIGHT.append((fn, types, rank, group)) or fn


# --- names and assignment


@wrong("'missing' is not defined", C)
def unknown_name(idx, out):
    out[idx] = missing  # here


@right(C)
def known_name(idx, out):
    out[idx] = WEIGHTS[0]


@wrong("'x' is possibly unassigned", C)
def unassigned_in_branch(idx, out):
    if idx[0] > 2:
        x = 1.0
    out[idx] = x  # here


@right(C)
def assigned_in_both(idx, out):
    if idx[0] > 2:
        x = 1.0
    else:
        x = 2.0
    out[idx] = x


@wrong("'x' is possibly unassigned", C, INT)
def unassigned_in_loop(idx, out, n):
    for k in range(n):
        x = k * 2.0
    out[idx] = x  # here


@right(C)
def assigned_in_a_known_loop(idx, out):
    for k in range(4):
        x = k * 2.0
    out[idx] = x


@wrong("'x' is possibly unassigned", C)
def assigned_too_late(idx, out):
    for k in range(4):
        if k > 0:
            out[idx] = x  # here
        x = 1.0


@wrong("'x' is possibly unassigned", C, INT)
def unassigned_after_break(idx, out, n):
    for k in range(4):
        if k == n:
            break
        x = 1.0
    out[idx] = x  # here


@right(C, INT)
def assigned_where_it_goes_on(idx, out, n):
    if n > 3:
        x = 1.0
    else:
        return
    out[idx] = x


@right(C, INT)
def assigned_in_endless_loop(idx, out, n):
    while True:
        x = n * 2.0
        if x > 7:
            break
    out[idx] = x


@wrong("'x' is float32 at line", C, R)
def record_and_number(idx, out, r):
    x = out[idx]
    if idx[0] > 2:
        x = r[0]  # here
    out[idx] = x


@wrong("use another name", C, A)
def array_and_number(idx, out, a):
    t = 1.0
    if idx[0] > 2:
        t = a  # here
    out[idx] = t


@right(C, A)
def int_and_float(idx, out, a):
    t = 1
    if idx[0] > 2:
        t = a[idx]
    out[idx] = t


@wrong("2 names cannot take 3 values", C)
def wrong_count(idx, out):
    i, j = (1, 2, 3)  # here
    out[idx] = i + j


@wrong("only tuples can be taken apart", C)
def take_a_number_apart(idx, out):
    i, j = out[idx]  # here
    out[idx] = i + j


# --- indexing


@wrong("takes 2 integers as its index, not 1", C, A)
def too_few_indexes(idx, out, a):
    out[idx] = a[idx[0]]  # here


@wrong("takes 2 integers as its index, not 3", C, A)
def too_many_indexes(idx, out, a):
    out[idx] = a(idx[0], idx[1], 0)  # here


@wrong("an index must be an integer, not float32", C, A)
def float_index(idx, out, a):
    out[idx] = a[a[idx], 0]  # here


@right(C, A)
def cast_index(idx, out, a):
    out[idx] = a[int(a[idx]), 0]


@wrong("is negative", C, A)
def negative_index(idx, out, a):
    out[idx] = a[-1, idx[1]]  # here


@right(C, A)
def last_index(idx, out, a):
    out[idx] = a[a.extent(0) - 1, idx[1]] + a[idx[0] - 1, idx[1]]


@wrong("outside a tile", C, T, group=(16, 16))
def outside_a_tile(idx, out, t):
    out[idx] = t[idx.group][16, 0]  # here


@right(C, T, group=(16, 16))
def inside_a_tile(idx, out, t):
    out[idx] = t[idx.group][15, 0]


@wrong("outside", C, group=(8, 8))
def outside_a_local_field(idx, out):
    s = pydp.local_field(np.float32, 8, 8)
    s[0, 8] = 1.0  # here


@wrong("cannot be assigned as a whole", C, T, group=(16, 16))
def assign_a_tile(idx, out, t):
    t[idx.group] = 1.0  # here


@wrong("a number is needed here, not a tile", C, T, group=(16, 16))
def compute_with_a_tile(idx, out, t):
    out[idx] = t[idx.group] + 1.0  # here


@wrong("a number is needed here, not an array", C, A)
def compute_with_an_array(idx, out, a):
    out[idx] = a * 2.0  # here


@wrong("'a' is read-only", C, A)
def write_read_only(idx, out, a):
    a[idx] = 1.0  # here


@wrong("'a' is read-only", C, C)
def write_through_read_only(idx, out, a):
    b = pydp.read_only(a)
    out[idx] = b[idx]
    b[idx] = 1.0  # here


@wrong("a slice cannot be used", C, A)
def slices(idx, out, a):
    out[idx] = a[0:2, 1]  # here


@wrong("has no 'size'", C, A)
def unknown_attribute(idx, out, a):
    out[idx] = a.size  # here


@wrong("the index has no 'lane'", C, group=(8, 8))
def unknown_index_part(idx, out):
    out[idx] = idx.lane  # here


@wrong("different ranks", C)
def ranks_do_not_fit(idx, out):
    out[idx + (1, 2, 3)] = 1.0  # here


@right(C)
def ranks_fit(idx, out):
    out[(idx + 1) * (1, 2)] = 1.0


@wrong("index 2 is outside a tuple of 2", C)
def no_third_index(idx, out):
    out[idx] = idx[2]  # here


@wrong("cannot be indexed by a variable", C)
def empty_table(idx, out):
    t = ()
    out[idx] = t[idx[0]]  # here


# --- groups


@wrong("needs a group", C)
def local_without_group(idx, out):
    out[idx.local] = 1.0  # here


@wrong("needs a group", C)
def barrier_without_group(idx, out):
    pydp.group_barrier()  # here


@wrong("are constants", C, INT, group=(8, 8))
def run_time_local_field(idx, out, n):
    s = pydp.local_field(np.float32, n)  # here
    s[0] = 1.0


@right(C, group=(8, 8))
def known_local_field(idx, out):
    s = pydp.local_field((idx.group_extent[0], 4), np.float32)
    s[idx.local[0], 0] = 1.0


@wrong("1 or more", C, group=(8, 8))
def empty_local_field(idx, out):
    s = pydp.local_field(np.float32, 0)  # here
    s[0] = 1.0


@wrong("of a tile are 1 or more", C)
def empty_tile(idx, out):
    out[idx] = pydp.tile(out, (0, 4)).extent[0]  # here


@wrong("has 2 extents, not 3", C)
def tile_of_another_rank(idx, out):
    out[idx] = out.tile(4, 4, 4).extent[0]  # here


# --- types


@wrong("uint64 with int64 has no integer type", FieldType(U64, 1), L, rank=1)
def unsigned_with_signed(idx, u, a):
    u[idx] = u[idx] + a[idx]  # here


@right(FieldType(U64, 1), L, rank=1)
def unsigned_with_cast(idx, u, a):
    u[idx] = u[idx] + np.uint64(a[idx]) + 1


@wrong("300 does not fit uint8", FieldType(np.dtype("u1"), 1), rank=1)
def literal_too_large(idx, u):
    u[idx] = u[idx] + 300  # here


@right(FieldType(np.dtype("u1"), 1), rank=1)
def literal_fits(idx, u):
    u[idx] = np.int32(u[idx]) + 300 if u[idx] < 300 else 255


@wrong("needs integers", C, A)
def shift_a_float(idx, out, a):
    out[idx] = a[idx] << 1  # here


@wrong("negative power", V, rank=1)
def negative_power(idx, out):
    out[idx] = out[idx] ** -1  # here


@right(C, rank=2)
def real_negative_power(idx, out):
    out[idx] = float(idx[0]) ** -1


@wrong("cannot be computed", C)
def divides_by_zero(idx, out):
    out[idx] = 1 / 0  # here


@wrong("range takes integers", C, REAL)
def float_range(idx, out, x):
    for k in range(x):  # here
        out[idx] = k


@wrong("not 0", C)
def range_without_step(idx, out):
    for k in range(0, 4, 0):  # here
        out[idx] = k


@wrong("complex numbers cannot", C)
def complex_number(idx, out):
    out[idx] = 2j  # here


# --- records


@wrong("the record has no member 'z'", C, R)
def unknown_member(idx, out, r):
    out[idx] = r[0].z  # here


@wrong("there is no member 'z'", C, R)
def assign_unknown_member(idx, out, r):
    r[0].z = 1.0  # here


@wrong("records are equal or not", C, R)
def order_of_records(idx, out, r):
    out[idx] = r[0] < r[1]  # here


@wrong("member 'n' is not given", R, rank=1)
def incomplete_record(idx, r):
    r[idx] = pydp.record(REC, x=1.0)  # here


@right(R, rank=1)
def complete_record(idx, r):
    r[idx] = pydp.record(REC, x=1.0, n=2)


@wrong("'y' is no member", R, rank=1)
def record_with_more(idx, r):
    r[idx] = REC(x=1.0, n=1, y=2)  # here


@wrong("cannot become a record", R, rank=1)
def number_into_record(idx, r):
    r[idx] = 1.0  # here


@wrong("belongs to the caller", R, rank=1)
def callee_changes_record(idx, r):
    r[idx] = _changed(r[idx])


def _changed(body):
    body.x = 2.0  # here
    return body


@wrong("needs numbers; take a member", R, rank=1)
def add_records(idx, r):
    r[idx] = r[idx] + r[idx]  # here


# --- calls


def _recursive(n):
    return _recursive(n - 1) if n > 0 else 0  # here


@wrong("recursion", C)
def recursion(idx, out):
    out[idx] = _recursive(idx[0])


def _two(x, y):
    return x + y


@wrong("lacks its argument 'y'", C)
def missing_argument(idx, out):
    out[idx] = _two(1)  # here


@wrong("takes 2 arguments, not 3", C)
def too_many_arguments(idx, out):
    out[idx] = _two(1, 2, 3)  # here


@wrong("has no argument 'z'", C)
def unknown_argument(idx, out):
    out[idx] = _two(1, z=3)  # here


@right(C)
def named_argument(idx, out):
    out[idx] = _two(1, y=3)


def _sometimes(x):
    if x > 0:  # here
        return 1.0


@wrong("may end without a return", C)
def no_return(idx, out):
    out[idx] = _sometimes(idx[0])


def _mixed(x):
    if x > 0:
        return 1.0
    return (1.0, 2.0)  # here


@wrong("returns plain float elsewhere and a tuple", C)
def mixed_returns(idx, out):
    out[idx] = _mixed(idx[0])


@wrong("not None", C)
def result_of_nothing(idx, out):
    out[idx] = _nothing(out, idx)  # here


def _nothing(out, idx):
    out[idx] = 1.0


@wrong("a function run by forall returns nothing", C)
def returns_a_value(idx, out):
    return out[idx]  # here


@wrong("cannot be called in a vector function", C)
def calls_a_type(idx, out):
    out[idx] = sorted((3, 1, 2))  # here


@wrong("print cannot be used", C)
def prints(idx, out):
    print(out[idx])  # here


@wrong("pydp.matmul cannot be used", C, A)
def calls_an_algorithm(idx, out, a):
    pydp.matmul(a, a)  # here


@wrong("takes 1 arguments", C, A)
def wrong_arity(idx, out, a):
    out[idx] = math.sin(a[idx], 2.0)  # here


@wrong("cannot change a private_field", C)
def atomic_on_private(idx, out):
    own = pydp.private_field(np.int32, 4)
    pydp.atomic_add(own, 0, 1)  # here


@wrong("changes an element of an array, not", C)
def atomic_on_a_number(idx, out):
    pydp.atomic_add(idx[0], 1)  # here


@right(V, rank=1)
def atomics(idx, v):
    pydp.atomic_add(v, 0, 1)
    pydp.atomic_max(v[idx], 2)


# --- syntax


@wrong("a formatted string cannot be used", C)
def formatted(idx, out):
    f"{out}"  # here


@wrong("is a string", C)
def string(idx, out):
    name = "x"  # here
    out[idx] = name


@wrong("a list cannot be used", C)
def list_display(idx, out):
    x = [1, 2]  # here
    out[idx] = x[0]


@wrong("'TABLE' is a list", C)
def list_from_outside(idx, out):
    out[idx] = TABLE[0]  # here


@wrong("'ARRAY' is an array from outside", C)
def array_from_outside(idx, out):
    out[idx] = ARRAY[0]  # here


@wrong("'NAMES' is a dict", C)
def dict_from_outside(idx, out):
    out[idx] = NAMES["a"]  # here


@wrong("a dict cannot be used", C)
def dict_display(idx, out):
    x = {1: 2}  # here
    out[idx] = x[1]


@wrong("a list comprehension cannot be used", C)
def comprehension(idx, out):
    x = [k for k in range(3)]  # here
    out[idx] = x[0]


@wrong("a generator expression cannot be used", C)
def generator(idx, out):
    out[idx] = max(k for k in range(3))  # here


@wrong("a lambda cannot be used", C)
def inner_lambda(idx, out):
    f = lambda x: x  # here
    out[idx] = f(1)


@wrong("a function inside a function", C)
def inner_function(idx, out):
    def f(x):  # here
        return x

    out[idx] = f(1)


@wrong("a class cannot be used", C)
def inner_class(idx, out):
    class Thing:  # here
        pass


@wrong("try cannot be used", C)
def tries(idx, out):
    try:  # here
        out[idx] = 1
    except ValueError:
        pass


@wrong("with cannot be used", C)
def withs(idx, out):
    with out:  # here
        pass


@wrong("raise cannot be used", C)
def raises(idx, out):
    raise ValueError  # here


@wrong("assert cannot be used", C)
def asserts(idx, out):
    assert idx[0] > 0  # here


@wrong("global cannot be used", C)
def globals_(idx, out):
    global TABLE  # here
    out[idx] = 1


@wrong("del cannot be used", C)
def deletes(idx, out):
    x = 1.0
    del x  # here


@wrong("import cannot be used", C)
def imports(idx, out):
    import math  # here

    out[idx] = math.pi


@wrong("else of a loop", C)
def loop_else(idx, out):
    for k in range(4):
        out[idx] = k
    else:
        out[idx] = 1  # here


@wrong("a for loop runs over range", C, A)
def for_over_array(idx, out, a):
    for x in a:  # here
        out[idx] = x


@wrong("break inside a loop over a tuple", C)
def break_in_unrolled(idx, out):
    for w in WEIGHTS:
        if idx[0] > w:
            break  # here
        out[idx] = w


@wrong("'in' cannot be used", C)
def membership(idx, out):
    if idx[0] in (1, 2):  # here
        out[idx] = 1


@wrong("'is' cannot be used", C)
def identity(idx, out):
    if out is None:  # here
        out[idx] = 1


@wrong("None is no value", C)
def none_value(idx, out):
    x = None  # here
    out[idx] = x


@wrong("an assignment inside an expression", C)
def walrus(idx, out):
    if (n := idx[0]) > 2:  # here
        out[idx] = n


@wrong("@ cannot be used", C, A)
def matrix_product(idx, out, a):
    out[idx] = a @ a  # here


@wrong("a starred", C)
def starred(idx, out):
    first, *rest = idx  # here
    out[idx] = first


@wrong("a condition is a number", C)
def tuple_condition(idx, out):
    if idx:  # here
        out[idx] = 1


@right(C, A, TupleType((INT, INT)), T, group=(16, 16))
def everything(idx, out, a, pair, t):
    """A docstring, then a little of everything that is right."""
    i, j = idx
    total: float = 0.0
    own = pydp.private_field((2, 2), np.float32)
    for k in range(2):
        own[k, k] = a(i, k)
        total += own[k, k] if k else -own[k, k]
    for w in WEIGHTS:
        total *= w
    while total > 100.0:
        total /= 2
        if total < 1:
            continue
        pass
    tile = t[idx.group]
    out[idx + pair] = pydp.where(total > 0, total, tile[idx.local]) + max(i, j, pair[0]) % 7
    return


# --- more that is right


@right(C)
def assigned_by_every_return(idx, out):
    if idx[0] > 3:
        return
    elif idx[1] > 3:
        x = 1.0
    else:
        x = 2
    out[idx] = x


@right(C, A)
def view_chosen_by_a_branch(idx, out, a):
    t = a.tile(4, 4)[0, 0]
    if idx[0] > 3:
        t = a.tile(4, 4)[0, 1]
    out[idx] = t[1, 1]


@right(V, rank=1)
def number_as_condition(idx, v):
    if v[idx] and not v[0]:
        v[idx] = 2


@right(C)
def swap(idx, out):
    i, j = idx
    i, j = j, i
    out[i, j] = 1.0


@right(R, R, rank=1)
def record_is_a_value(idx, r, q):
    x = r[idx]
    y = x
    y.x += 1
    q[idx] = y
    if x == y:
        q[idx].n = 1


@right(V, rank=1)
def bits(idx, v):
    v[idx] = ~v[idx] & 0xFF | v[idx] << 3 ^ v[idx] >> 2


@right(C, T, group=(16, 16))
def first_of_every_tile(idx, out, t):
    for k in range(t.extent(1)):
        out[idx] += t(idx.group[0], k)(0, 0)


@right(C, A)
def nested_tiles(idx, out, a):
    t = pydp.tile(pydp.tile(a, (64, 64)), 16)
    out[idx] = t[0, 1][3, 3][15, 0]


@right(C, A)
def of_a_section(idx, out, a):
    s = pydp.section(a, (2, 2), (idx[0], 5))
    row = pydp.project(s, 0, 1)
    out[idx] = row[idx[1]] + row.extent[0]


@right(V, rank=1)
def index_is_a_number_in_one_dimension(idx, v):
    v[idx] = idx + 1


@right(C, group=(8, 8))
def barrier_in_uniform_control(idx, out):
    s = pydp.local_field(np.float32, 8, 8)
    for k in range(out.extent[0]):
        if k % 2:
            s[idx.local] = k
            pydp.group_barrier()
            out[idx] += s[idx.local[1], idx.local[0]]
            pydp.group_barrier(64)


@right(C)
def annotated(idx, out: "field"):
    x: np.float32
    x: int = 3
    out[idx] = x


HELPERS = ("_recursive", "_changed", "_sometimes", "_mixed")


def _line_of(fn):
    """Lines marked `# here` in the function, or in the function that it calls."""
    places = set()
    for each in (fn, *(globals()[name] for name in fn.__code__.co_names if name in HELPERS)):
        lines, first = inspect.getsourcelines(each)
        places |= {first + n for n, line in enumerate(lines) if line.rstrip().endswith("# here")}
    return places


def test_there_are_enough():
    assert len(WRONG) >= 30 and len(RIGHT) >= 30


@pytest.mark.parametrize("fn, says, types, rank, group", WRONG, ids=lambda item: getattr(item, "__name__", ""))
def test_refused(fn, says, types, rank, group):
    with pytest.raises(VectorError) as caught:
        translate(fn, rank, group, types)
    assert says in caught.value.message
    assert caught.value.line in _line_of(fn), str(caught.value)
    text = str(caught.value)
    assert "^" in text and __file__ in text and "# here" in text
    assert isinstance(caught.value, pydp.InvalidArgument) and "\n" not in caught.value.message


@pytest.mark.parametrize("fn, types, rank, group", RIGHT, ids=lambda item: getattr(item, "__name__", ""))
def test_accepted(fn, types, rank, group):
    assert translate(fn, rank, group, types).name == fn.__name__


def test_the_calls_that_led_there():
    """An error in a called function also says where it was called."""
    with pytest.raises(VectorError) as caught:
        translate(mixed_returns, 2, None, [C])
    (caller,) = caught.value.callers
    assert caller.function == "mixed_returns" and caller.text.strip() == "out[idx] = _mixed(idx[0])"
    assert f"line {caller.line}, in mixed_returns" in str(caught.value)


def two(idx, out):
    out[idx] = 1.0


def test_arguments_of_translate():
    with pytest.raises(VectorError, match=r"two takes 2 arguments \(the index and the arguments\), not 3"):
        translate(two, 2, None, [C, A])
    with pytest.raises(VectorError, match="a group of 1 axes does not fit a grid of 2"):
        translate(two, 2, (16,), [C])
    with pytest.raises(VectorError, match="no Python function"):
        translate(3, 2, None, [C])
    with pytest.raises(VectorError, match="complex64"):
        translate(two, 2, None, [FieldType(np.dtype("c8"), 2)])
    with pytest.raises(VectorError, match="a lambda stores nothing"):
        translate(lambda idx, out: out, 2, None, [C])


def test_no_source():
    space: dict = {}
    exec("def made(idx, out):\n    out[idx] = 1\n", space)
    with pytest.raises(VectorError, match="source of made is not to be had"):
        translate(space["made"], 2, None, [C])
