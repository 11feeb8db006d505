"""Short functions to write the intermediate form by hand in tests."""

from __future__ import annotations

import numpy as np

from pydp.lang import ir

I32, F32, BOOL = np.dtype(np.int32), np.dtype(np.float32), np.dtype(np.bool_)
HERE = ir.NOWHERE


def at(line):
    return ir.Where("kernel.py", line, 0, "", "f")


def c(value, dtype=I32):
    return ir.Const(np.dtype(dtype), value)


def local(axis=0):
    return ir.LocalIndex(I32, axis)


def group(axis=0):
    return ir.GroupIndex(I32, axis)


def place(axis=0):
    return ir.GlobalIndex(I32, axis)


def lift(value):
    return value if isinstance(value, ir.Expr) else c(value)


def op(name, left, right):
    left, right = lift(left), lift(right)
    return ir.Binary(left.dtype, name, left, right)


def add(left, right):
    return op("add", left, right)


def sub(left, right):
    return op("sub", left, right)


def mul(left, right):
    return op("mul", left, right)


def mod(left, right):
    return op("mod", left, right)


def div(left, right):
    return op("floordiv", left, right)


def cmp(name, left, right):
    return ir.Compare(BOOL, name, lift(left), lift(right))


def read(variable):
    return ir.Read(variable.dtype, variable)


def var(name, dtype=I32):
    return ir.Variable(name, np.dtype(dtype))


def load(array, *indices, line=0):
    return ir.Load(array.dtype, array, tuple(lift(i) for i in indices), (), False, at(line))


def store(array, indices, value, line=0):
    return ir.Store(at(line), array, tuple(lift(i) for i in indices), lift(value))


def assign(variable, value, line=0):
    return ir.Assign(at(line), variable, lift(value))


def loop(variable, start, stop, body, step=1, line=0):
    return ir.For(at(line), variable, lift(start), lift(stop), lift(step), body)


def when(condition, then, orelse=(), line=0):
    return ir.If(at(line), condition, list(then), list(orelse))


def barrier(number=0, line=0, width=None):
    return ir.Barrier(at(line), width, number)


def function(body, *, group=None, rank=1, arrays=(), parameters=(), locals=(), privates=(), variables=()):
    return ir.Function(
        "f", rank, group, I32, list(arrays), list(parameters), list(variables), list(locals), list(privates), body
    )


def array(name, dtype=I32, rank=1, position=0, writable=True, fill=0):
    return ir.GlobalArray(name, np.dtype(dtype), rank, writable, position, fill)


def shared(name, *shape, dtype=I32):
    return ir.LocalArray(name, np.dtype(dtype), shape)


def private(name, *shape, dtype=I32):
    return ir.PrivateArray(name, np.dtype(dtype), shape)
