"""Local memory (SPEC S3): a model of bank conflicts, padded layouts, and the owner-write exchange. Functions are pure.

Local memory consists of banks. Each bank serves one word at a time. Accesses of several lanes to different words of one
bank conflict and are serialized; accesses to the same word do not conflict. The model counts the conflicts of an access
pattern and chooses the padding of rows.

In an owner-write exchange, each work-item stores only to its own slots and reads any slot (R700 ISA, section 2.6). The
R700 layout is bank_id = thread mod banks and bank_offset = (thread / banks) * stride + index. Stores of neighbouring
work-items go to different banks for every index, so stores never conflict. The R700 has 4 banks of 16 bytes; current
GPUs have 32 banks of 4 bytes. Without banks, each slot is one row of all lanes, which vectorizing compilers store and
load as vectors. kernels_cl/wg_exchange.mako generates the addresses.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from pydp.errors import InvalidArgument

_EVERY = (128, 64, 32, 16, 8)
_WALKED = 64  # elements of a lane that are simulated; the bank pattern repeats after them
Pattern = Callable[[int], tuple[int, ...]]
"""Maps a lane to the index of the element that it accesses: ``lambda lane: (lane, 0)`` reads a column."""


@dataclass(frozen=True)
class Banks:
    """`count` banks with words of `width` bytes; consecutive words are in consecutive banks. `lanes` lanes access local
    memory at the same time.

    count 1 means no banks (a CPU): there are no conflicts.
    """

    count: int
    width: int
    lanes: int

    def bank(self, address: int) -> int:
        """The bank of a byte address."""
        return address // self.width % self.count


GPU = Banks(32, 4, 32)
"""The banks of current GPUs: 32 banks of 4 bytes, 32 lanes at a time."""

NONE = Banks(1, 4, 1)
"""A CPU: local memory is ordinary memory, without banks."""


def degree(banks: Banks, addresses: Iterable[int], element_bytes: int = 4) -> int:
    """The bank conflict degree of one access: the maximum number of different words in one bank, at least 1.

    An access of degree n is an n-way bank conflict: it takes n memory cycles, one word per bank in each.

    addresses: the byte address of each lane's element, in lane order. Groups of `banks.lanes` lanes access memory
    together; the result is for the worst group. For an element of several words, proportionally fewer lanes access
    memory together, as on GPUs.

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
    """The layout of an array of `shape` with rows `shape[-1] + pad` elements apart. degree: the conflict degree of the
    worst pattern; reason: why this padding."""

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
        """Elements of the whole array, including padding."""
        rows = 1
        for extent in self.shape[:-1]:
            rows *= extent
        return rows * self.row

    def offset(self, index: Sequence[int]) -> int:
        """The offset of an element, in elements."""
        place = 0
        for extent, item in zip(self.shape[:-1], index[:-1], strict=True):
            place = place * extent + item
        return place * self.row + index[-1]


def worst(banks: Banks, rows: Layout, element_bytes: int, patterns: Sequence[Pattern], lanes: int | None = None) -> int:
    """The conflict degree of the worst pattern in the layout `rows`, for the lanes 0 .. `lanes` - 1."""
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
    """The layout with the least row padding without bank conflicts, or with the lowest conflict degree otherwise.

    patterns: the accesses of the kernel, for the lanes 0 .. `lanes` - 1 (default: `banks.lanes`). step: the padding is
    a multiple of it, for rows that are read as vectors.

    >>> layout(GPU, (32, 32), 4, [lambda lane: (0, lane), lambda lane: (lane, 0)]).pad
    1
    """
    shape = tuple(shape)
    count = banks.lanes if lanes is None else lanes
    if not patterns or banks.count == 1:
        return Layout(shape, 0, 1, "no banks: rows need no padding" if patterns else "no access pattern is known")
    best: Layout | None = None
    for pad in range(0, max(banks.count, step + 1), step):
        candidate = Layout(shape, pad, 1, "")
        found = worst(banks, candidate, element_bytes, patterns, count)
        if best is None or found < best.degree:
            best = Layout(shape, pad, found, _layout_reason(banks, pad, found))
        if found == 1:
            break
    assert best is not None
    return best


@dataclass(frozen=True)
class Skew:
    """The layout of a line of elements with one unused element after each `every` (0: none). degree: the conflict
    degree of the worst pattern; reason: why this layout."""

    every: int
    degree: int
    reason: str

    def offset(self, index: int) -> int:
        """The offset of an element, in elements."""
        return index + index // self.every if self.every else index

    def size(self, count: int) -> int:
        """Size of `count` elements, including unused ones."""
        return self.offset(count)


@functools.lru_cache(maxsize=256)
def skewed(banks: Banks, element_bytes: int, lanes: int, items: int, columns: int, every: int) -> Skew:
    """The cost of the accesses of :func:`skew` with one unused element after each `every` (0: none)."""
    if banks.count == 1:
        return Skew(every, 1, "no banks: the layout makes no difference")
    stretch = columns * items
    together = range(min(lanes, banks.lanes))
    item_numbers = range(min(items, _WALKED))
    walks = [[lane * items + item for lane in together] for item in item_numbers]
    walks += [
        [lane // columns * stretch + item * columns + lane % columns for lane in together] for item in item_numbers
    ]
    bare = Skew(every, 1, "")
    highest = max(degree(banks, [element_bytes * bare.offset(i) for i in walk], element_bytes) for walk in walks)
    unused = f"one unused element after each {every}" if every else "no unused elements"
    return Skew(every, highest, f"{unused}: conflict degree {highest} on {banks.count} banks of {banks.width} bytes")


def skew(banks: Banks, element_bytes: int, lanes: int, items: int, columns: int) -> Skew:
    """The layout with the fewest unused elements without bank conflicts, or with the lowest conflict degree otherwise.

    Each lane owns `items` consecutive elements. Two accesses are considered, as in scans and sorts: all lanes access
    their k-th element at the same time, and rows of `columns` lanes load and store consecutive elements.

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
    rows = f"rows {pad} element(s) longer" if pad else "rows without padding"
    return f"{rows}: {_conflicts(banks, worst)}"


def _conflicts(banks: Banks, degree: int) -> str:
    found = "conflict-free" if degree == 1 else f"conflict degree {degree}, the lowest found,"
    return f"{found} on {banks.count} banks of {banks.width} bytes"


def banks_of(count: int, width: int, lanes: int = 32) -> Banks:
    """The banks of a device profile."""
    return NONE if count <= 1 else Banks(count, width, lanes)


Read = Callable[[int], tuple[int, int]]
"""Maps a lane to the (owner, slot) that it reads: ``lambda lane: (lane ^ 1, 0)`` is a neighbour's first slot."""


@dataclass(frozen=True)
class Exchange:
    """The layout of the slots of `lanes` work-items, with `slots` elements each.

    A row holds `entry` elements for each of `across` neighbouring lanes (a run) and `pad` unused elements. The rows of
    a run are contiguous, as on the R700. With `by_slot`, the first rows of all runs come first, then the second rows.
    wave: lanes of a wavefront; its slots are contiguous, and lanes count within it (relative addressing). In absolute
    addressing, the work-group is one wavefront. degree: the conflict degree of the worst given access; reason: why this
    layout.

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
        """Rows per run."""
        return -(-self.slots // self.entry)

    @property
    def runs(self) -> int:
        """Runs of `across` lanes per wavefront."""
        return -(-self.wave // self.across)

    @property
    def wave_size(self) -> int:
        """Elements per wavefront."""
        return self.runs * self.rows * self.pitch

    @property
    def size(self) -> int:
        """Elements of local memory in total."""
        return self.lanes // self.wave * self.wave_size

    def offset(self, lane: int, slot: int, wave: int = 0) -> int:
        """The offset of a lane's slot; `lane` counts within wavefront `wave` (absolute addressing: the work-group)."""
        run, own = lane // self.across, slot // self.entry
        row = own * self.runs + run if self.by_slot else run * self.rows + own
        place = row * self.pitch + lane % self.across * self.entry + slot % self.entry
        return place + wave * self.wave_size if wave else place

    def params(self) -> dict[str, object]:
        """The parameters of wg_exchange.mako."""
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
    """The layout for a work-group whose lanes own `slots` elements each, with the least padding for `reads`.

    reads: the accesses to slots of other lanes, for every lane of a wavefront. Without `reads`, there is no padding,
    because accesses of all lanes to their own slots never conflict. wave: lanes of a wavefront for relative addressing,
    a divisor of `lanes`; None: absolute addressing.

    >>> from pydp.local_memory import GPU
    >>> exchange(GPU, 256, 4, 4, [lambda lane: (lane % 8 * 32 + lane // 32, lane % 32 // 8)]).pad
    1
    """
    whole = lanes if wave is None else wave
    if min(lanes, slots, element_bytes) < 1 or whole < 1 or lanes % whole:
        raise InvalidArgument(
            f"lanes {lanes}, slots {slots}, element_bytes {element_bytes}, wave {wave} are given; "
            "positive integers, and a wave that divides lanes, are accepted"
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
    """Layouts without store conflicts, simplest first. With reads, rows are also padded and hold more lanes."""
    yield Exchange(lanes, slots, across, entry, 0, wave)
    row = across
    while reads and row <= wave:
        for by_slot in (False, True):
            for pad in range(0, across * entry, entry):
                yield Exchange(lanes, slots, row, entry, pad, wave, by_slot)
        row *= 2


def _worst(banks: Banks, found: Exchange, element_bytes: int, reads: Sequence[Read], enough: int | None) -> int:
    """The highest conflict degree of the reads and of the accesses of all lanes to their own slots. The search stops at
    degree `enough`, because another layout is then at least as good."""
    together = max(1, banks.lanes // max(1, -(-element_bytes // banks.width)))  # lanes that access memory together
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
    rows = f"rows of {found.across} lanes" + (f" and {found.pad} unused element(s)" if found.pad else "")
    return f"owner-write in {rows}: {_conflicts(banks, worst)}"
