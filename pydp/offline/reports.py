"""Read the resources of a kernel from ptxas' report or AMD's assembly, or estimate them from PTX."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Resources:
    """The resources of a compiled kernel.

    registers: 32-bit registers per work-item. scalar_registers: AMD's registers per wavefront. local_bytes: local
    memory per group. scratch_bytes: private memory per work-item (spills, and arrays with computed indexes).
    spilled_bytes: the spills in it. waves: wavefronts per SIMD that AMD's compiler assumes, 0 if unknown. source: the
    origin of the figures.
    """

    kernel: str
    registers: int
    scalar_registers: int = 0
    local_bytes: int = 0
    scratch_bytes: int = 0
    spilled_bytes: int = 0
    waves: int = 0
    source: str = ""

    def __str__(self) -> str:
        parts = [f"{self.registers} registers", f"{self.local_bytes} bytes of local memory"]
        parts.append(f"{self.spilled_bytes} bytes of spills, {self.scratch_bytes} of scratch memory")
        return f"{self.kernel}: {', '.join(parts)} (by {self.source})"


# --- ptxas ------------------------------------------------------------------------------------------------


def of_ptxas(report: str) -> dict[str, Resources]:
    """The kernels in the output of ``ptxas -v``."""
    found = {}
    for block in re.split(r"Compiling entry function", report)[1:]:
        named = re.match(r"\s*'([^']+)'", block)
        used = re.search(r"Used (\d+) registers([^\n]*)", block)
        if named is None or used is None:
            continue
        name = named.group(1)
        own = re.search(rf"Function properties for {re.escape(name)}\b[^\n]*\n([^\n]*)", block)
        frame = own.group(1) if own else ""
        found[name] = Resources(
            name,
            int(used.group(1)),
            local_bytes=_first(r"(\d+) bytes smem", used.group(2)),
            scratch_bytes=_first(r"(\d+) bytes stack frame", frame),
            spilled_bytes=_first(r"(\d+) bytes spill stores", frame),
            source="ptxas",
        )
    return found


def _first(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match.group(1)) if match else 0


# --- AMD's assembly -----------------------------------------------------------------------------------------


def of_assembly(text: str) -> dict[str, Resources]:
    """The kernels in an assembly text for AMD GPUs."""
    spills = dict(_spills(text))
    found = {}
    for block in re.split(r"^\s*\.amdhsa_kernel\s+", text, flags=re.MULTILINE)[1:]:
        name = block.split(None, 1)[0]
        info = block.partition("; Kernel info:")[2]
        scratch = _first(r"; ScratchSize: (\d+)", info)
        found[name] = Resources(
            name,
            _first(r"; TotalNumVgprs: (\d+)", info) or _first(r"; NumVgprs: (\d+)", info),
            _first(r"; (?:Total)?NumSgprs: (\d+)", info),
            _first(r"; LDSByteSize: (\d+)", info),
            scratch,
            4 * spills.get(name, 0) if scratch else 0,  # without scratch memory, they are in other registers
            _first(r"; Occupancy: (\d+)", info),
            "the assembly",
        )
    return found


def _spills(text: str) -> Iterator[tuple[str, int]]:
    """(kernel, spilled vector registers) from the metadata at the end of an assembly."""
    metadata = text.partition(".amdgpu_metadata")[2]
    for block in re.split(r"^  - ", metadata, flags=re.MULTILINE)[1:]:
        name = re.search(r"^    \.name:\s+(\S+)", block, flags=re.MULTILINE)
        if name:
            yield name.group(1), _first(r"\.vgpr_spill_count: (\d+)", block)


# --- PTX without ptxas ---------------------------------------------------------------------------------------

_NO_RESULT = ("st.", "st ", "bra", "bar", "ret", "red.", "membar", "fence", "exit", "prefetch", "trap", "brx", "call")
_ABI_REGISTERS = 4  # registers that ptxas adds to a program's own values, by comparison


def of_ptx(text: str) -> dict[str, Resources]:
    """Estimated resources of the kernels in a PTX text. The registers are the most values alive at one point.

    ptxas reorders instructions, so its count differs, mostly by less than a quarter. Spills cannot be estimated.
    """
    found = {}
    for match in re.finditer(r"\.entry\s+([\w$]+)\s*\([^)]*\)[^{]*\{", text):
        end = re.compile(r"^\}", re.MULTILINE).search(text, match.end())
        body = text[match.end() : end.start() if end else len(text)]
        words = _register_words(body)
        found[match.group(1)] = Resources(
            match.group(1),
            _most_alive(_blocks(body, words), words) + _ABI_REGISTERS,
            local_bytes=_array_bytes("shared", body),
            scratch_bytes=_array_bytes("local", body),
            source="an estimate from the PTX",
        )
    return found


def _array_bytes(space: str, body: str) -> int:
    return sum(map(int, re.findall(rf"\.{space}[^;\[]*\.b8\s+[\w$]+\[(\d+)\]", body)))


def _register_words(body: str) -> dict[str, int]:
    """32-bit registers per value of each declared kind; predicates have separate registers."""
    kinds = re.findall(r"\.reg\s+\.(\w+)\s+(%\w+?)<", body)
    return {name: 0 if kind == "pred" else 2 if kind.endswith("64") else 1 for kind, name in kinds}


@dataclass
class _Block:
    """A basic block: (registers written, registers read) of each instruction, and its possible successors."""

    steps: list[tuple[set[str], set[str]]]
    targets: list[str]
    falls_through: bool
    labels: list[str]


def _blocks(body: str, words: dict[str, int]) -> list[_Block]:
    body = re.sub(r"//[^\n]*", "", body)
    body = re.sub(r"\{([^{}]*;[^{}]*)\}", r"\1", body)  # inline assembly with registers of its own
    blocks = [_Block([], [], True, [])]
    for part in re.findall(r"[\w$]+:(?=\s)|[^;:{}]*(?:\{[^{}]*\}[^;{}]*)*;", body):
        text = part.strip()
        if text.endswith(":"):
            if blocks[-1].steps:
                blocks.append(_Block([], [], True, []))
            blocks[-1].labels.append(text[:-1])
        elif text and not text.startswith("."):
            _add(blocks, text, words)
    return blocks


def _add(blocks: list[_Block], text: str, words: dict[str, int]) -> None:
    guard, _, rest = text.partition(" ") if text.startswith("@") else ("", "", text)
    rest = rest.strip()
    named = [r for r in re.findall(r"%\w+", rest) if re.sub(r"\d+$", "", r) in words]
    count = 0
    if not rest.startswith(_NO_RESULT):
        operands = rest.split(None, 1)[1] if " " in rest or "\t" in rest else ""
        first = operands[: operands.index("}") + 1] if operands.startswith("{") else operands.split(",")[0]
        count = len([r for r in re.findall(r"%\w+", first) if r in named])
    written, read = set(named[:count]), set(named[count:]) | set(re.findall(r"%\w+", guard))
    block = blocks[-1]
    block.steps.append((set() if guard else written, read))
    if rest.startswith(("bra", "ret", "exit", "brx")):
        block.targets = re.findall(r"\$[\w$]+", rest)
        block.falls_through = bool(guard)
        blocks.append(_Block([], [], True, []))


def _most_alive(blocks: list[_Block], words: dict[str, int]) -> int:
    """The most live registers over all points, by the usual backward data-flow analysis."""
    place = {label: number for number, block in enumerate(blocks) for label in block.labels}
    after: list[list[int]] = [
        [place[t] for t in block.targets if t in place]
        + ([number + 1] if block.falls_through and number + 1 < len(blocks) else [])
        for number, block in enumerate(blocks)
    ]
    entering: list[set[str]] = [set() for _ in blocks]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(blocks))):
            alive = _entering(blocks[number], set().union(*(entering[n] for n in after[number])))
            if alive != entering[number]:
                entering[number], changed = alive, True
    most = 0
    for number, block in enumerate(blocks):
        alive = set().union(*(entering[n] for n in after[number]))
        for written, read in reversed(block.steps):
            most = max(most, _weight(alive | written, words))
            alive = (alive - written) | read
    return most


def _entering(block: _Block, alive: set[str]) -> set[str]:
    for written, read in reversed(block.steps):
        alive = (alive - written) | read
    return alive


def _weight(alive: set[str], words: dict[str, int]) -> int:
    return sum(words.get(name.rstrip("0123456789"), 1) for name in alive)
