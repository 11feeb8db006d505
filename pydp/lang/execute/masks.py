"""Masks of lanes: True (all lanes), False (no lane) or an array of bools over the lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

Mask = Any


def mask_and(left: Mask, right: Mask) -> Mask:
    """The lanes in both masks."""
    if left is False or right is False:
        return False
    if left is True:
        return right
    return left if right is True else left & right


def mask_or(left: Mask, right: Mask) -> Mask:
    """The lanes in at least one of two masks."""
    if left is True or right is True:
        return True
    if left is False:
        return right
    return left if right is False else left | right


def mask_andnot(left: Mask, right: Mask) -> Mask:
    """The lanes in the first mask that are not in the second."""
    if right is False or left is False:
        return left
    if right is True:
        return False
    return ~right if left is True else left & ~right


def normalize(mask: Any) -> Mask:
    """The mask; True or False if it has the same value for all lanes."""
    if mask is True or mask is False:
        return mask
    if np.ndim(mask) == 0:
        return bool(mask)
    if not mask.any():
        return False
    return True if mask.all() else mask
