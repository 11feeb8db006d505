"""Local memory (SPEC S3): the model of its banks, padded layouts, and the owner-write exchange. All functions are pure.

Local memory consists of banks that serve one word each at a time. Lanes that access different words of one bank wait
for one another; lanes that access the same word are served together. The model counts this for any access pattern and
chooses the padding of rows, so that nobody counts banks by hand.

In an owner-write exchange every work-item stores to slots of its own and reads any (R700 ISA, section 2.6). The R700's
placement, bank_id = thread mod banks and bank_offset = (thread / banks) * stride + index, puts what neighbouring
work-items store in different banks whatever the index, so stores never conflict. With 4 banks of 16 bytes it is the
R700's own, with 32 of 4 bytes that of today's GPUs. Without banks each slot is a row of all lanes, which compilers that
run lanes as vectors store and load as such. kernels_cl/wg_exchange.mako writes the addresses.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

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


Read = Callable[[int], tuple[int, int]]
"""The (owner, slot) that a lane reads: ``lambda lane: (lane ^ 1, 0)`` is a neighbour's first slot."""


@dataclass(frozen=True)
class Exchange:
    """Where the slots of `lanes` work-items lie, `slots` elements for each.

    A row holds `entry` elements of each of `across` neighbouring lanes and `pad` unused ones. A run of lanes has its
    rows together (as on the R700), or with `by_slot` all runs have their first rows together, then their second. wave:
    lanes of a wavefront, whose slots lie together; work-items count within it (relative addressing). The whole
    group is one wavefront in absolute addressing. degree: turns of the worst access that was
    told of; reason: why this placement.

    >>> Exchange(lanes=64, slots=4, across=32, entry=1, pad=0, wave=64).offset(33, 2)
    193
    """

    lanes: int
    slots: int
    across: int
    entry: int
    pad: int
    wave: int
    by_slot: bool = False
    degree: int = 1
    reason: str = ""

    @property
    def pitch(self) -> int:
        """Elements from one row to the next."""
        return self.across * self.entry + self.pad

    @property
    def rows(self) -> int:
        """Rows of `across` lanes that their slots take."""
        return -(-self.slots // self.entry)

    @property
    def runs(self) -> int:
        """Runs of `across` lanes in a wavefront."""
        return -(-self.wave // self.across)

    @property
    def wave_size(self) -> int:
        """Elements of one wavefront's slots."""
        return self.runs * self.rows * self.pitch

    @property
    def size(self) -> int:
        """Elements of local memory in all."""
        return self.lanes // self.wave * self.wave_size

    def offset(self, lane: int, slot: int, wave: int = 0) -> int:
        """The element of a lane's slot; the lane counts within wavefront `wave` (absolute addressing: the group)."""
        run, own = lane // self.across, slot // self.entry
        row = own * self.runs + run if self.by_slot else run * self.rows + own
        place = row * self.pitch + lane % self.across * self.entry + slot % self.entry
        return place + wave * self.wave_size if wave else place

    def params(self) -> dict[str, object]:
        """What the definitions of wg_exchange.mako take."""
        derived = {
            "pitch": self.pitch,
            "rows": self.rows,
            "runs": self.runs,
            "wave_size": self.wave_size,
            "size": self.size,
        }
        return {**asdict(self), **derived}


def exchange(
    banks: Banks, lanes: int, slots: int, element_bytes: int, reads: Sequence[Read] = (), wave: int | None = None
) -> Exchange:
    """The placement for a group whose lanes own `slots` elements each, with the least padding that serves `reads`.

    reads: the accesses to others' slots, for every lane of a wavefront. With none, or with slots that the lanes pick
    for themselves, nothing is padded: a lane's own slots never conflict with another's. wave: lanes of a wavefront
    for relative addressing, a divisor of `lanes`; None: absolute.

    >>> from pydp.local_memory import GPU
    >>> exchange(GPU, 256, 4, 4, [lambda lane: (lane % 8 * 32 + lane // 32, lane % 32 // 8)]).pad
    1
    """
    whole = lanes if wave is None else wave
    if min(lanes, slots, element_bytes) < 1 or whole < 1 or lanes % whole:
        raise InvalidArgument(
            f"lanes {lanes}, slots {slots}, element_bytes {element_bytes}, wave {wave} are not accepted; "
            "positive integers are, and a wave that divides lanes"
        )
    if banks.count == 1:
        reason = "no banks: each slot is a row of all lanes"
        return Exchange(lanes, slots, whole, 1, 0, whole, reason=reason)
    entry = max(1, banks.width // element_bytes)
    across = max(1, banks.count // -(-element_bytes // banks.width))
    across = whole if across % whole == 0 else across
    best: Exchange | None = None
    for found in _placements(lanes, slots, across, entry, whole, bool(reads)):
        worst = _worst(banks, found, element_bytes, reads, None if best is None else best.degree)
        if best is None or worst < best.degree:
            best = replace(found, degree=worst, reason=_exchange_reason(banks, found, worst))
        if worst == 1:
            break
    assert best is not None
    return best


def _placements(lanes: int, slots: int, across: int, entry: int, wave: int, reads: bool) -> Iterator[Exchange]:
    """Placements whose stores do not conflict, plainest first; for reads rows are padded, and hold several runs."""
    yield Exchange(lanes, slots, across, entry, 0, wave)
    row = across
    while reads and row <= wave:
        for by_slot in (False, True):
            for pad in range(0, across * entry, entry):
                yield Exchange(lanes, slots, row, entry, pad, wave, by_slot)
        row *= 2


def _worst(banks: Banks, found: Exchange, element_bytes: int, reads: Sequence[Read], enough: int | None) -> int:
    """Turns of the worst access: of the reads, and of every own slot by all lanes. Where one takes `enough` turns, no
    further one is looked at, for another placement is better then."""
    together = max(1, banks.lanes // max(1, -(-element_bytes // banks.width)))  # lanes that ask at a time
    own: list[Read] = [functools.partial(_own, slot=slot) for slot in range(found.slots)]
    worst = 1
    for access in (*reads, *own):
        for first in range(0, found.wave, together):
            lanes = range(first, min(first + together, found.wave))
            addresses = [element_bytes * found.offset(*access(lane)) for lane in lanes]
            worst = max(worst, degree(banks, addresses, element_bytes))
            if enough is not None and worst >= enough:
                return worst
    return worst


def _own(lane: int, slot: int) -> tuple[int, int]:
    return lane, slot


def _exchange_reason(banks: Banks, found: Exchange, worst: int) -> str:
    where = f"{banks.count} banks of {banks.width} bytes"
    turns = "conflict-free" if worst == 1 else f"{worst} turns, the fewest found,"
    rows = f"rows of {found.across} lanes" + (f" and {found.pad} unused element(s)" if found.pad else "")
    return f"owner-write in {rows}: {turns} on {where}"
