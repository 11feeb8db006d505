"""Owner-write exchange: every work-item stores to slots of its own and reads any (SPEC S3; R700 ISA, section 2.6).

The R700's placement, bank_id = thread mod banks and bank_offset = (thread / banks) * stride + index, keeps what
neighbouring work-items store in different banks whatever the index: stores never conflict. With 4 banks of 16 bytes it
is the R700's own, with 32 of 4 bytes that of today's GPUs; without banks each slot is a row of all lanes, which
compilers that run lanes as vectors store and load as such. kernels_cl/wg_exchange.mako writes the addresses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from pydp.errors import InvalidArgument
from pydp.lds import Banks, degree

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

    >>> from pydp.lds import GPU
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
