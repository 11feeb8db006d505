"""The built-in functions of operator expressions: argument counts, argument types and result types.

All of them map values to values; do not list a function that takes a pointer. OpenCL C chooses an overload by equal
types; here arguments of different types are converted like operands, and scalars are widened to vectors.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from pydp.algorithms.operators.tree import (
    FLOATS,
    INT,
    INTEGERS,
    SIZES,
    UNSIGNED,
    WIDTHS,
    Node,
    Refused,
    Type,
    in_range,
    quoted,
    usual,
    weak_value,
    widens_to,
)

Signature = tuple[tuple[Type, ...], Type]
"""The types that the arguments are converted to, and the type of the result."""
_Rule = Callable[[str, Sequence[Node]], Signature]

CASTS = {str(Type(name, width)): Type(name, width) for name in SIZES if name != "real" for width in (1, *WIDTHS)}
"""The types of casts, vectors, ``as_`` and ``convert_``, by name."""

_CONVERSION = re.compile(r"(?P<how>as|convert)_(?P<type>[a-z]+\d*)(?P<sat>_sat)?(?P<round>_rt[ezpn])?\Z", re.ASCII)


def call(name: str, arguments: Sequence[Node]) -> Node:
    """A call of a built-in function. Raises Refused if no function has this name and these arguments."""
    takes, result = _signature(name, arguments)
    return Node("call", name, tuple(arguments), result, takes)


def _signature(name: str, arguments: Sequence[Node]) -> Signature:
    conversion = _CONVERSION.match(name)
    target = CASTS.get(conversion["type"]) if conversion else None
    if name not in _BUILTINS and target is None:
        raise Refused(
            f"the function {quoted(name)} is unknown; OpenCL C functions of values and conversions are accepted"
        )
    rule, count = _BUILTINS.get(name, (_converted, 1))
    if len(arguments) != count:
        given = len(arguments)
        raise Refused(
            f"{name} is given {given} argument{'s' * (given > 1)}; {count} {'are' if count > 1 else 'is'} accepted"
        )
    for one in arguments:
        if one.type.record is not None:
            raise Refused(f"{name} is given {one.type}; numbers and vectors are accepted")
    return rule(name, arguments)


def _converted(name: str, arguments: Sequence[Node]) -> Signature:
    found = _CONVERSION.match(name)
    assert found is not None
    own, target = arguments[0].type, CASTS[found["type"]]
    if found["how"] == "as":
        own = Type("double", own.width) if own.name == "real" else own  # as_ always takes such literals as double
        if found["sat"] or found["round"]:
            raise Refused(f"the function {name!r} is unknown; as_{target} is accepted")
        same = own.width == target.width and own.size == target.size
        if not same and (3 in (own.width, target.width) or own.width * own.size != target.width * target.size):
            raise Refused(f"{name} is given {own}; values with the same number of bytes are accepted")
    elif found["sat"] and not target.is_integer:
        raise Refused(f"the function {name!r} is unknown; _sat is accepted for integers")
    elif own.width != target.width:
        raise Refused(f"{name} is given {own}; values with the same number of components are accepted")
    return (own,), target


# --- the common type of the arguments -----------------------------------------------------------------------


def _shared(name: str, arguments: Sequence[Node], accepted: frozenset[str]) -> Type:
    vectors = {one.type for one in arguments if one.type.width > 1}
    if len(vectors) > 1:
        raise Refused(f"{name} is given {_types(arguments)}; vectors of one type are accepted")
    if vectors:
        (found,) = vectors
        if any(one.type.width == 1 and not widens_to(one, found.name) for one in arguments):
            raise Refused(
                f"{name} is given {_types(arguments)}; scalars of a type no larger than the component type of {found} "
                "(for floats: any integer) are accepted"
            )
    else:
        found = _shared_scalar(arguments)
    if found.name not in accepted:
        kinds = {FLOATS: "floating-point numbers", INTEGERS: "integers"}.get(accepted, " and ".join(sorted(accepted)))
        raise Refused(f"{name} is given {_types(arguments)}; {kinds} are accepted (a cast converts)")
    return found


def _shared_scalar(arguments: Sequence[Node]) -> Type:
    """Literals without suffix take the type of the other arguments, if it can hold them."""
    types = {one.type for one in arguments if weak_value(one) is None}
    if any(one.name in FLOATS and one.name != "real" for one in types):
        types.discard(Type("real"))
    found = functools.reduce(usual, sorted(types, key=str)) if types else None
    for one in arguments:
        number = weak_value(one)
        if number is not None and (found is None or (found.is_integer and not in_range(number, found.name))):
            found = usual(found or one.type, one.type)
    assert found is not None
    return found


def _types(arguments: Sequence[Node]) -> str:
    return ", ".join(str(one.type) for one in arguments)


# --- rules --------------------------------------------------------------------------------------------------


def _rule(accepted: frozenset[str], result: Callable[[Type], Type] = lambda own: own) -> _Rule:
    """A rule: all arguments have the same type, and `result` maps it to the type of the result."""

    def rule(name: str, arguments: Sequence[Node]) -> Signature:
        found = _shared(name, arguments, accepted)
        return (found,) * len(arguments), result(found)

    return rule


_float, _integer, _number = _rule(FLOATS), _rule(INTEGERS), _rule(FLOATS | INTEGERS)
_short_product = _rule(frozenset(["int", "uint"]))
_magnitude = _rule(INTEGERS, lambda own: own.unsigned)
_test = _rule(FLOATS, lambda own: own.truth)


def _native(name: str, arguments: Sequence[Node]) -> Signature:
    found = _shared(name, arguments, frozenset(["float", "real"])).of("float")
    return (found,) * len(arguments), found


def _exponent(name: str, arguments: Sequence[Node]) -> Signature:
    found = _shared(name, arguments[:1], FLOATS)
    power = arguments[1].type
    if not power.is_integer or power.width not in (1, found.width) or (power.width > 1 and power.name != "int"):
        raise Refused(f"{name} is given {_types(arguments)}; a floating-point number and an int are accepted")
    return (found, found.of("int")), found


def _not_a_number(name: str, arguments: Sequence[Node]) -> Signature:
    found = _shared(name, arguments, INTEGERS)
    size = max(found.size, 4) if found.width == 1 else found.size
    if size == 1:
        raise Refused(f"{name} is given {_types(arguments)}; integers of 16, 32 and 64 bits are accepted")
    return (Type({2: "ushort", 4: "uint", 8: "ulong"}[size], found.width),), found.of(
        {2: "half", 4: "float", 8: "double"}[size]
    )


def _geometric(name: str, arguments: Sequence[Node]) -> Signature:
    found = _shared(name, arguments, FLOATS)
    if found.width > 4 or (name == "cross" and found.width < 3):
        accepted = "vectors of 3 or 4" if name == "cross" else "scalars and vectors of up to 4"
        raise Refused(f"{name} is given {_types(arguments)}; {accepted} are accepted")
    return (found,) * len(arguments), found if name in ("cross", "normalize") else found.scalar


def _select(name: str, arguments: Sequence[Node]) -> Signature:
    found, asked = _shared(name, arguments[:2], FLOATS | INTEGERS), arguments[2].type
    if not asked.is_integer or asked.width != found.width or asked.size != found.size or found.name == "real":
        raise Refused(f"{name} is given {_types(arguments)}; the last must be integers of the same size as the values")
    return (found, found, asked), found


def _shuffle(name: str, arguments: Sequence[Node]) -> Signature:
    found, mask = _shared(name, arguments[:-1], FLOATS | INTEGERS), arguments[-1].type
    right = found.width not in (1, 3) and mask.width not in (1, 3)
    if not right or not mask.is_integer or mask.is_signed or mask.size != found.size:
        raise Refused(
            f"{name} is given {_types(arguments)}; vectors of 2, 4, 8 or 16 and a mask of unsigned integers of the "
            "same size are accepted"
        )
    return ((found,) * (len(arguments) - 1) + (mask,), mask.of(found.name))


def _upsample(name: str, arguments: Sequence[Node]) -> Signature:
    high, low = arguments[0].type, arguments[1].type
    if not high.is_integer or high.size > 4 or low != high.unsigned:
        raise Refused(
            f"{name} is given {_types(arguments)}; integers of up to 32 bits, the second unsigned, are accepted"
        )
    wide = {1: "short", 2: "int", 4: "long"}[high.size]
    return (high, low), high.of(wide if high.is_signed else "u" + wide)


# fmt: off
_ROWS: tuple[tuple[_Rule, int, str], ...] = (
    (_float, 1, """
        acos acosh acospi asin asinh asinpi atan atanh atanpi cbrt ceil cos cosh cospi degrees erf erfc exp exp2 exp10
        expm1 fabs floor lgamma log log2 log10 log1p logb radians rint round rsqrt sign sin sinh sinpi sqrt tan tanh
        tanpi tgamma trunc"""),
    (_float, 2, "atan2 atan2pi copysign fdim fmax fmin fmod hypot maxmag minmag nextafter pow powr remainder step"),
    (_float, 3, "fma mad mix smoothstep"),
    (_native, 1, "native_exp native_log native_sqrt native_rsqrt native_sin native_cos native_recip"),
    (_native, 2, "native_divide"),
    (_exponent, 2, "ldexp pown rootn"),
    (_rule(FLOATS, lambda own: own.of("int")), 1, "ilogb"),
    (_not_a_number, 1, "nan"),
    (_integer, 1, "clz popcount"),
    (_integer, 2, "add_sat hadd mul_hi rhadd rotate sub_sat"),
    (_integer, 3, "mad_hi mad_sat"),
    (_magnitude, 1, "abs"),
    (_magnitude, 2, "abs_diff"),
    (_short_product, 2, "mul24"),
    (_short_product, 3, "mad24"),
    (_upsample, 2, "upsample"),
    (_number, 2, "max min"),
    (_number, 3, "bitselect clamp"),
    (_select, 3, "select"),
    (_geometric, 1, "length normalize"),
    (_geometric, 2, "cross distance dot"),
    (_test, 1, "isfinite isinf isnan isnormal signbit"),
    (_test, 2, """
        isequal isgreater isgreaterequal isless islessequal islessgreater isnotequal isordered isunordered"""),
    (_rule(INTEGERS - UNSIGNED, lambda own: INT), 1, "all any"),
    (_shuffle, 2, "shuffle"),
    (_shuffle, 3, "shuffle2"),
)
# fmt: on
_BUILTINS = {name: (rule, count) for rule, count, names in _ROWS for name in names.split()}
TESTS = frozenset(name for name, (rule, _) in _BUILTINS.items() if rule is _test)
"""The names of the functions that are true or false."""
FUNCTIONS = frozenset(_BUILTINS)
"""The names of the listed functions."""
