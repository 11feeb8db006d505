"""The bank model of local memory: how many turns an access takes, and layouts that need only one (SPEC S3).

Local memory is made of banks that serve one word each at a time. Lanes that ask one bank for different words wait for
one another; lanes that ask for the same word are served together. The model counts this for any pattern, and picks
the padding of rows for the patterns that a kernel uses, so that nobody counts banks by hand. All functions are pure.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pydp.errors import InvalidArgument

_EVERY = (128, 64, 32, 16, 8)
_WALKED = 64  # of a lane's own elements; what follows them lies in the same banks again
Pattern = Callable[[int], tuple[int, ...]]
"""The element that a lane touches, as an index of the array: ``lambda lane: (lane, 0)`` reads a column."""


@dataclass(frozen=True)
class Banks:
    """count banks of words of `width` bytes, neighbouring words in neighbouring banks; `lanes` ask at a time.

    count 1 means no banks at all (a CPU): nothing ever conflicts.
    """

    count: int
    width: int
    lanes: int

    def bank(self, address: int) -> int:
        """The bank of a byte address."""
        return address // self.width % self.count


GPU = Banks(32, 4, 32)
"""The layout of today's GPUs: 32 banks of 4 bytes, 32 lanes at a time."""

R700 = Banks(4, 16, 4)
"""The R700's: 4 banks of 16 bytes (256 entries each), 4 lanes at a time."""

NONE = Banks(1, 4, 1)
"""A CPU's: local memory is ordinary memory."""


def r700_place(thread: int, stride: int, index: int) -> tuple[int, int]:
    """(bank_id, bank_offset in dwords) of a work-item's own slot on the R700 (ISA manual, section 2.6).

    bank_id = thread mod 4; bank_offset = (thread >> 2) * stride + index, stride and index in dwords, multiples of 4
    (stride 4 to 64). `thread` counts within the group (absolute addressing) or within the wavefront (relative).

    >>> r700_place(5, 8, 4)
    (1, 12)
    """
    if stride % 4 or not 4 <= stride <= 64 or index % 4 or not 0 <= index < stride:
        raise InvalidArgument(f"stride {stride}, index {index} are not accepted; multiples of 4, index < stride <= 64")
    return thread % 4, (thread >> 2) * stride + index


def degree(banks: Banks, addresses: Iterable[int], element_bytes: int = 4) -> int:
    """Turns that one access takes: the most different words that lanes ask one bank for, 1 at least.

    addresses: the byte address of each lane's element, in the lanes' order; groups of `banks.lanes` lanes ask together,
    and the worst of them counts. Elements of several words are served to so many fewer lanes at a time, each with its
    words together, as GPUs do it.

    >>> degree(GPU, [4 * 32 * lane for lane in range(32)])
    32
    """
    if banks.count == 1:
        return 1
    words_each = max(1, -(-element_bytes // banks.width))
    wide = Banks(max(1, banks.count // words_each), banks.width * words_each, max(1, banks.lanes // words_each))
    worst = 1
    asked = list(addresses)
    for first in range(0, len(asked), wide.lanes):
        words: dict[int, set[int]] = defaultdict(set)
        for address in asked[first : first + wide.lanes]:
            words[wide.bank(address)].add(address // wide.width)
        worst = max(worst, *(len(found) for found in words.values()))
    return worst


@dataclass(frozen=True)
class Layout:
    """How an array of `shape` lies: rows are `shape[-1] + pad` elements apart. degree: of the worst pattern; reason."""

    shape: tuple[int, ...]
    pad: int
    degree: int
    reason: str

    @property
    def row(self) -> int:
        """Elements from one row to the next."""
        return self.shape[-1] + self.pad

    @property
    def size(self) -> int:
        """Elements of the whole array, padding included."""
        rows = 1
        for extent in self.shape[:-1]:
            rows *= extent
        return rows * self.row

    def offset(self, index: Sequence[int]) -> int:
        """The place of an element, in elements."""
        place = 0
        for extent, item in zip(self.shape[:-1], index[:-1], strict=True):
            place = place * extent + item
        return place * self.row + index[-1]


def worst(banks: Banks, rows: Layout, element_bytes: int, patterns: Sequence[Pattern], lanes: int | None = None) -> int:
    """Turns that the worst of the patterns takes with these rows, for the lanes 0 .. `lanes` - 1."""
    count = banks.lanes if lanes is None else lanes
    return max(
        degree(banks, [element_bytes * rows.offset(pattern(lane)) for lane in range(count)], element_bytes)
        for pattern in patterns
    )


def layout(
    banks: Banks,
    shape: Sequence[int],
    element_bytes: int,
    patterns: Sequence[Pattern],
    lanes: int | None = None,
    step: int = 1,
) -> Layout:
    """The least padding of rows with which none of the patterns conflicts; the best there is where none is free.

    patterns: each an access of the kernel, for the lanes 0 .. `lanes` - 1 (default: those that ask at a time).
    step: paddings are multiples of it (where rows are read in vectors).

    >>> layout(GPU, (32, 32), 4, [lambda lane: (0, lane), lambda lane: (lane, 0)]).pad
    1
    """
    shape = tuple(shape)
    count = banks.lanes if lanes is None else lanes
    if not patterns or banks.count == 1:
        return Layout(shape, 0, 1, "no banks: rows lie one after the other" if patterns else "no pattern is known")
    best: Layout | None = None
    for pad in range(0, max(banks.count, step + 1), step):
        candidate = Layout(shape, pad, 1, "")
        turns = worst(banks, candidate, element_bytes, patterns, count)
        if best is None or turns < best.degree:
            best = Layout(shape, pad, turns, _layout_reason(banks, pad, turns))
        if turns == 1:
            break
    assert best is not None
    return best


@dataclass(frozen=True)
class Skew:
    """How a line of elements lies: one unused after each `every` (0: none). degree: of the worst pattern; reason."""

    every: int
    degree: int
    reason: str

    def offset(self, index: int) -> int:
        """The place of an element, in elements."""
        return index + index // self.every if self.every else index

    def size(self, count: int) -> int:
        """Elements that `count` of them take, unused ones included."""
        return self.offset(count)


@functools.lru_cache(maxsize=256)
def skewed(banks: Banks, element_bytes: int, lanes: int, items: int, columns: int, every: int) -> Skew:
    """What the accesses of :func:`skew` cost with one unused element after each `every` (0: none)."""
    if banks.count == 1:
        return Skew(every, 1, "no banks: where elements lie makes no difference")
    stretch = columns * items
    together = range(min(lanes, banks.lanes))
    turns_of = range(min(items, _WALKED))
    walks = [[lane * items + item for lane in together] for item in turns_of]
    walks += [[lane // columns * stretch + turn * columns + lane % columns for lane in together] for turn in turns_of]
    bare = Skew(every, 1, "")
    turns = max(degree(banks, [element_bytes * bare.offset(i) for i in walk], element_bytes) for walk in walks)
    unused = f"one unused element after each {every}" if every else "elements as they are"
    return Skew(every, turns, f"{unused}: {turns} turn(s) of {banks.count} banks of {banks.width} bytes at worst")


def skew(banks: Banks, element_bytes: int, lanes: int, items: int, columns: int) -> Skew:
    """The fewest unused elements with which lanes that own `items` neighbours each do not wait for one another.

    The lanes walk their own elements side by side, and rows of `columns` lanes load and store their stretches in turns,
    neighbours by neighbouring lanes (a scan's and a sort's way). Where nothing is free, the fewest turns there are.

    >>> skew(GPU, 4, lanes=256, items=8, columns=256).every
    32
    """
    found: list[Skew] = []
    for every in (0, *_EVERY) if banks.count > 1 else (0,):
        found.append(skewed(banks, element_bytes, lanes, items, columns, every))
        if found[-1].degree == 1:
            break
    return min(found, key=lambda one: one.degree)


def _layout_reason(banks: Banks, pad: int, worst: int) -> str:
    where = f"{banks.count} banks of {banks.width} bytes"
    rows = f"rows {pad} element(s) longer" if pad else "rows as they are"
    return f"{rows}: conflict-free on {where}" if worst == 1 else f"{rows}: {worst} turns on {where}, the fewest found"


def banks_of(count: int, width: int, lanes: int = 32) -> Banks:
    """The banks that a device profile tells of."""
    return NONE if count <= 1 else Banks(count, width, lanes)
