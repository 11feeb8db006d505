"""Groups of one lane along the grid's last axis: each lane runs each statement once."""

from __future__ import annotations

import needs
import numpy as np
import pytest

import pydp
from pydp import forall, group_barrier, local_field


@pydp.vector
def counting(idx, counts, lanes, skipping, rounds):
    """Adds to a count in both branches of a uniform condition, after a barrier; one branch has a loop."""
    mirror = local_field(np.int32, 16)
    lane = idx.local[0] + idx.local[1]
    mirror[lane] = lane
    group_barrier()
    value = mirror[lanes - 1 - lane]
    at = idx[0] + idx[1]
    if idx.group[0] + idx.group[1] < skipping:
        counts[at] += 1
    else:
        for i in range(rounds):
            value = value % 7 * 3 + i
        counts[at] += value
    counts[at] += 2


# Not under Oclgrind in the vector mapping: lanes that pad a vector read elements of other groups, and ignore them.
@pytest.mark.parametrize("mapping", [pytest.param("simt", marks=pytest.mark.oclgrind), "vector"])
@pytest.mark.parametrize("group", [(8, 1), (1, 8), (1, 1), (16, 1)])
def test_each_lane_of_a_narrow_group_runs_each_statement_once(device, mapping, group):
    needs.vector_mapping(device, mapping)
    shape = (48, 1) if group[1] == 1 else (1, 48)
    counts, number = np.zeros(48, np.int32), np.arange(48, dtype=np.int32)
    forall(shape, counting, counts, max(group), 2, 5, group=group, spec={"mapping": mapping})
    value = max(group) - 1 - number % max(group)
    for i in range(5):
        value = value % 7 * 3 + i
    np.testing.assert_array_equal(counts, np.where(number // max(group) < 2, 1, value) + 2)
