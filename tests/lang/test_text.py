"""The typed form as readable text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builder import (
    BOOL,
    F32,
    HERE,
    I32,
    add,
    array,
    assign,
    at,
    barrier,
    c,
    cmp,
    function,
    group,
    load,
    local,
    loop,
    mul,
    op,
    place,
    private,
    read,
    shared,
    store,
    var,
    when,
)

from pydp.lang import ir
from pydp.lang.ir.text import expr_text, ir_text

pytestmark = pytest.mark.host

A = array("a", rank=2)
REC = np.dtype([("p", "i4"), ("q", "f4", (2,))])


def test_a_function() -> None:
    out, field = array("out", F32, position=2), shared("s", 4, 8)
    number, pair = ir.Parameter(I32, "n", 1), ir.Parameter(F32, "t", 3, item=1)
    i, r = var("i"), var("r", REC)
    body = [
        loop(i, 0, ir.ArrayExtent(I32, A, 1), [store(A, (read(i), add(place(), 1)), load(A, 0, 0))], line=7),
        when(cmp("lt", local(), 3), [ir.Break(at(9))], [ir.Continue(HERE)], line=8),
        when(cmp("ge", local(1), number), [assign(i, 2)]),
        ir.While(HERE, cmp("ne", group(), 0), [barrier(), barrier(width=c(16))]),
        ir.Assign(HERE, r, c(1.5, F32), ("q", ir.Item("1"))),
        ir.Store(HERE, out, (c(5),), pair, ("p",)),
        ir.Atomic(at(12), "max", field, (c(1), c(2)), number),
        ir.Atomic(HERE, "add", field, (c(1), c(2)), number, old=private("old", 1)),
    ]
    made = function(
        body,
        group=(2, 8),
        rank=2,
        arrays=[A, array("b", rank=1, position=4, writable=False), out],
        parameters=[number, pair],
        variables=[i, r],
        locals=[field],
        privates=[private("old", 1)],
    )
    lines = [
        "function f, grid of rank 2, group (2, 8)",
        "    argument 0 a: field<2, int32>",
        "    argument 4 b: field<1, int32> read only",
        "    argument 2 out: field<1, float32>",
        "    argument 1 n: int32",
        "    argument 3 t[1]: float32",
        "    variable i: int32",
        f"    variable r: {REC}",
        "    local s: int32[4, 8]",
        "    private old: int32[1]",
        "    for i in range(0, a.extent[1], 1)  # 7",
        "        a[i, (global[0] + 1)] = a[0, 0]",
        "    if (local[0] < 3)  # 8",
        "        break  # 9",
        "    else",
        "        continue",
        "    if (local[1] >= n)",
        "        i = 2",
        "    while (group[0] != 0)",
        "        barrier",
        "        barrier of width 16",
        "    r.q[1] = 1.5:float32",
        "    out[5].p = t[1]",
        "    atomic max s[1, 2], n  # 12",
        "    old[0] = atomic add s[1, 2], n",
    ]
    assert ir_text(made).split("\n") == lines


def test_a_function_of_values() -> None:
    x, y = var("x"), var("y")
    made = ir.ValueFunction("twice", [x], [y], [], [assign(y, mul(read(x), 2))], read(y))
    lines = ["function twice(x: int32) -> int32", "    variable y: int32", "    y = (x * 2)", "    result y"]
    assert ir_text(made).split("\n") == lines


X = read(var("x"))
TRUTH = ir.Const(BOOL, True)
RECORD = read(var("r", REC))
EXPRESSIONS: list[tuple[Any, str]] = [
    (ir.Unary(I32, "neg", X), "(-x)"),
    (ir.Unary(I32, "invert", X), "(~x)"),
    (ir.Unary(BOOL, "not", TRUTH), "(not True)"),
    (op("sub", op("shl", X, 3), 1), "((x << 3) - 1)"),
    (op("floordiv", X, op("mod", X, 3)), "(x // (x % 3))"),
    (ir.Logical(BOOL, "and", cmp("eq", X, 1), TRUTH), "((x == 1) and True)"),
    (ir.Select(I32, TRUTH, X, c(2)), "(x if True else 2)"),
    (ir.Cast(F32, X), "float32(x)"),
    (ir.Math(I32, "maximum", (X, c(2))), "maximum(x, 2)"),
    (ir.Member(I32, RECORD, "p"), "r.p"),
    (ir.Member(F32, ir.Member(np.dtype(("f4", (2,))), RECORD, "q"), ir.Item("1")), "r.q[1]"),
    (ir.MakeRecord(REC, (X, c(2))), "record(x, 2)"),
    (ir.GridExtent(I32, 1), "grid.extent[1]"),
    (c(0.5, F32), "0.5:float32"),
]


@pytest.mark.parametrize(("expr", "text"), EXPRESSIONS, ids=[text for _, text in EXPRESSIONS])
def test_expressions(expr: ir.Expr, text: str) -> None:
    assert expr_text(expr) == text
