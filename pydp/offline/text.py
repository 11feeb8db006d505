"""The text of a study of a target: what would run, the compiler's report, other candidates, and rejected ones."""

from __future__ import annotations

from pydp.model.explanation import differences
from pydp.offline.study import Study, compiled_text

_MOST = 12  # items shown of a list; the others are counted


def text_of(title: str, study: Study) -> str:
    """The result of :func:`pydp.offline.study.study` as text."""
    head = f"{title} for {study.target.name}, {study.entry.note.partition(';')[0]}"
    lines = [head, "-" * len(head), *_facts(study), "", *_kernels(study)]
    if study.others:
        lines += [
            "",
            "other candidates, best prediction first (only the fields that differ from the specialization above)",
        ]
        lines += _listed([f"{differences(one.spec, study.runs.spec)}: {one.not_taken}" for one in study.others])
    if study.impossible:
        lines += ["", "rejected because they cannot run on this target"]
        lines += _listed([f"{differences(spec, study.runs.spec)}: {why}" for spec, why in study.impossible])
    return "\n".join(lines)


def _facts(study: Study) -> list[str]:
    runs, profile = study.runs, study.target.profile
    facts: list[tuple[str, object]] = [
        ("target", f"{profile.compute_units} compute units, {profile.local_bytes} bytes of local memory per group"),
        ("table", study.entry.note),
    ]
    if study.problem is None or study.choice is None:
        return _aligned([*facts, ("specialization", runs.reason)])
    facts.append(("specialization", runs.spec))
    facts.append(("chosen by", f"{study.choice.source}: {study.choice.reason}"))
    if runs.seconds is not None:
        facts += [("limiter", runs.limiter), ("prediction", runs.reason + compiled_text(runs))]
    return _aligned([*facts, *study.figures.items()])


def _aligned(facts: list[tuple[str, object]]) -> list[str]:
    width = max(len(name) for name, _ in facts)
    return [f"{name.ljust(width)}  {value}" for name, value in facts]


def _kernels(study: Study) -> list[str]:
    """The compiler's report on the kernels that would run."""
    if study.compiler is not None:
        return [f"not compiled: {study.compiler}"]
    if study.runs.not_taken is not None:
        return [study.runs.not_taken]
    if not study.runs.kernels:
        return ["no kernel runs: there is nothing to compute"]
    lines = ["its kernels, compiled"]
    for one in study.runs.kernels:
        lines.append(f"  - {one}")
        lines += [f"    fault: {fault}" for fault in one.faults]
    return lines


def _listed(items: list[str]) -> list[str]:
    shown = [f"  - {item}" for item in items[:_MOST]]
    return shown + ([f"  and {len(items) - _MOST} more"] if len(items) > _MOST else [])
