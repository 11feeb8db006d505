"""The check of a user's OpenCL C expression: every word of it must be known before it may stand in a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from pydp.dtypes import c_member, vector_parts
from pydp.errors import InvalidArgument

_TOKEN = re.compile(
    r"\s+|(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFhHuUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign><<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^~!<>?:.,()])"
)
_SCALARS = ["char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double", "half"]
_TYPES = frozenset([*_SCALARS, *(f"{name}{width}" for name in _SCALARS for width in (2, 3, 4, 8, 16))])
# The built-in functions of OpenCL C 1.2 that map values to values.
_FUNCTION_NAMES = """
    acos acosh acospi asin asinh asinpi atan atan2 atanh atanpi atan2pi cbrt ceil copysign cos cosh cospi erf erfc
    exp exp2 exp10 expm1 fabs fdim floor fma fmax fmin fmod hypot ilogb ldexp lgamma log log2 log10 log1p logb mad
    maxmag minmag nan nextafter pow pown powr remainder rint rootn round rsqrt sin sinh sinpi sqrt tan tanh tanpi
    tgamma trunc native_exp native_log native_sqrt native_rsqrt native_sin native_cos native_recip native_divide
    abs abs_diff add_sat hadd rhadd clamp clz mad_hi mad_sat max min mul_hi rotate sub_sat upsample popcount mad24
    mul24 degrees mix radians step smoothstep sign cross dot distance length normalize isequal isnotequal isgreater
    isgreaterequal isless islessequal islessgreater isfinite isinf isnan isnormal isordered isunordered signbit any
    all bitselect select shuffle shuffle2
"""
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
_CONSTANT_NAMES = "INFINITY NAN MAXFLOAT M_PI M_E M_PI_F M_E_F INT_MAX INT_MIN UINT_MAX LONG_MAX LONG_MIN"
_CONSTANTS = frozenset(_CONSTANT_NAMES.split())
_COMPONENT = re.compile(r"([xyzw]{1,4}|s[0-9a-fA-F]{1,16}|lo|hi|odd|even)\Z")
_CONVERSION = re.compile(r"(?:as|convert)_([a-z]+\d*)(?:_sat)?(?:_rt[ezpn])?\Z")


def checked_expression(text: str, dtype: np.dtype, what: str, names: tuple[str, ...] = ("a", "b")) -> str:
    """`text` with its fields' C names, in brackets, once every word in it is known; else InvalidArgument.

    Accepted are numbers, the values `names`, fields and components of them, operators without side effects,
    and OpenCL C's own types and functions. Brackets must pair; ``[ ] { } ; # " ' \\ =`` and line ends are refused.
    """
    out: list[str] = []
    depth, previous, used = 0, "", set()
    for kind, word in _words(text, what):
        if kind == "name":
            used.add(word)
            out.append(_name(word, previous, dtype, what, names, text))
        else:
            depth += {"(": 1, ")": -1}.get(word, 0)
            if word in ("++", "--") or depth < 0:
                trouble = "has a bracket too many" if depth < 0 else f"changes a value by {word!r}"
                raise InvalidArgument(f"{what} {text!r} {trouble}; an expression without side effects is accepted")
            out.append(word)
        previous = word
    if depth:
        raise InvalidArgument(f"{what} {text!r} has {depth} open bracket(s); brackets must pair")
    if not used & set(names):
        raise InvalidArgument(f"{what} {text!r} uses none of {', '.join(names)}; an expression in them is accepted")
    return f"({' '.join(out)})".replace(" . ", ".")


def _words(text: str, what: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if "\n" in text or "\r" in text or match is None or "//" in text or "/*" in text:
            wrong = "a line end" if "\n" in text or "\r" in text else "a comment" if match else repr(text[position])
            raise InvalidArgument(f"{what} {text!r} has {wrong} in it; one OpenCL C expression is accepted")
        position = match.end()
        for kind in ("number", "name", "sign"):
            if match.group(kind):
                yield kind, match.group(kind)


def _name(word: str, previous: str, dtype: np.dtype, what: str, names: tuple[str, ...], text: str) -> str:
    if previous == ".":
        vector = vector_parts(dtype) is not None or dtype.kind == "c"
        if dtype.names is not None and not vector and word in _all_fields(dtype):
            return c_member(word)
        if _COMPONENT.match(word):
            return word
        accepted = ", ".join(sorted(_all_fields(dtype))) if dtype.names and not vector else "x, y, z, w, s0, s1, ..."
        raise InvalidArgument(f"{what} {text!r}: {word!r} is no field of {dtype}; {accepted} are accepted")
    conversion = _CONVERSION.match(word)
    if (
        word in names
        or word in _FUNCTIONS
        or word in _TYPES
        or word in _CONSTANTS
        or (conversion and conversion.group(1) in _TYPES)
    ):
        return word
    raise InvalidArgument(
        f"{what} {text!r}: the name {word!r} is unknown; {', '.join(names)}, their fields and OpenCL C's types and "
        "functions are accepted"
    )


def _all_fields(dtype: np.dtype) -> set[str]:
    found: set[str] = set()
    for name in dtype.names or ():
        assert dtype.fields is not None
        member = dtype.fields[name][0].base
        found |= {name} | (_all_fields(member) if member.names else set())
    return found
