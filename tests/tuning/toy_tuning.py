"""A function of pydp's kind, on no device, whose specializations sleep, fail, hang or lie, as a tuner may meet them.

They sleep by the clock `time`, which tests replace by one of their own.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from pydp.model.explanation import Explanation, explained_by
from pydp.model.family import Family, Problem
from pydp.runtime.bounded import BoundedCache
from pydp.tuning.choose import choose
from pydp.tuning.shape_class import ShapeClass


@dataclass(frozen=True)
class ToyProblem(Problem):
    family: ClassVar[str] = "toy"
    n: int
    f: bool = False


@dataclass(frozen=True)
class ToySpec:
    """One that takes `wait` milliseconds; mode "right", "wrong", "raises", "hangs" (until RELEASED), "long" (that takes
    `seconds` more), "late" (whose result is there after `seconds`), "here" (which takes `seconds` for other
    sizes than X's), or "after" (which takes `seconds` after a run of another)."""

    wait: int = 8
    mode: str = "right"
    seconds: float = 0.0


CLOSED = False  # whether only what SPACE lists can run
SPACE = [ToySpec(8), ToySpec(4), ToySpec(2, "wrong"), ToySpec(2, "raises"), ToySpec(6)]


def check(profile: Any, problem: Problem, spec: ToySpec) -> str | None:
    if CLOSED and spec not in SPACE:
        return f"{spec} is not among {SPACE}"
    return None if 1 <= spec.wait <= 64 else f"wait is {spec.wait}, 1 to 64 are accepted"


def space(profile: Any, problem: Problem) -> list[ToySpec]:
    return [*SPACE, ToySpec(1000)]


FAMILY = Family("toy", ToySpec, lambda profile, problem: ToySpec(8), space, check)


def device(units: int = 2) -> Any:
    profile = SimpleNamespace(kind="cpu", compute_units=units, is_simulator=False, loop_limit=None)
    kept = {"choices": BoundedCache(99), "plans": BoundedCache(99), "recordings": BoundedCache(99), "facts": {}}
    return SimpleNamespace(name="toy device", uid="toy-1", profile=profile, **kept)


def device_info(of: Any) -> dict[str, str]:
    sizes = {"units": str(of.profile.compute_units), "l2_bytes": "1024", "local_bytes": "1024"}
    return {"device": of.name, "driver": "toy", "driver_version": "1", "kind": "cpu", "architecture": "toy", **sizes}


RUNS: list[ToySpec] = []
HANGS, RELEASED = threading.Event(), threading.Event()
X = np.arange(10, dtype=np.int64)
SHAPE = ShapeClass("toy", "int64", (16,))  # of X


def failures(found: Any) -> dict[str, str]:
    """The reason of each failure in the result of `tune`, by mode."""
    return {trial.spec["mode"]: trial.failure for trial in found.failures}


class _Late(np.ndarray):
    event: Any = None


def double(x: Any, *, device: Any, out: Any = None, spec: Any = None) -> Any:
    """Twice `x`, in `out` where it is given."""
    if not x.size:
        return x
    chosen = choose(FAMILY, device, ToyProblem(str(x.dtype), x.size), spec).spec
    RUNS.append(chosen)
    longer = (chosen.mode == "here" and x.size != X.size) or (chosen.mode == "after" and RUNS[-2:] != [chosen] * 2)
    time.sleep(chosen.seconds if longer else chosen.wait / 1000)
    if chosen.mode == "raises":
        raise RuntimeError("no such instruction\nmore of the log")
    if chosen.mode == "hangs":
        HANGS.set()
        assert RELEASED.wait(300)
    if chosen.mode == "long":
        time.sleep(chosen.seconds)
    result = 2 * x + (1 if chosen.mode == "wrong" else 0)
    if chosen.mode == "late":
        result = result.view(_Late)
        result.event = SimpleNamespace(wait=lambda: time.sleep(chosen.seconds))
    if out is None:
        return result
    out[...] = result
    return out


explained_by(double, lambda call: Explanation("double"))


def unspecialized(x: Any, *, device: Any = None, spec: Any = None) -> Any:
    """Knows no spec, and changes its argument."""
    if spec is not None:
        from pydp.errors import InvalidArgument

        raise InvalidArgument(f"spec={spec!r} is not accepted")
    x += 1
    return x


explained_by(unspecialized, lambda call: Explanation("unspecialized"))
