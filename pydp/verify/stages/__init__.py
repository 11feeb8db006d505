"""The stages of `pydp verify`, those that matter most first."""

from __future__ import annotations

from pydp.verify.check import Stage
from pydp.verify.stages import facts, known_answers, limits, model, progress, speeds, tuning

STAGES = (
    Stage("a", "device", 0.1, facts.CHECKS),
    Stage("b", "known answers", 0.4, known_answers.CHECKS, decides=True, limit=60.0),
    Stage("c", "forward progress", 0.15, progress.CHECKS, decides=True, limit=20.0),
    Stage("d", "limits", 0.08, limits.CHECKS),
    Stage("e", "speeds", 0.12, speeds.CHECKS),
    Stage("f", "model", 0.1, model.CHECKS),
    Stage("g", "tuning", 0.05, tuning.CHECKS),
)
