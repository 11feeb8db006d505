"""The registry of lowerings: a third lowering, registered in one place, is run, explained and refused by forall."""

from __future__ import annotations

import numpy as np
import pytest

import pydp
from pydp.algorithms.forall.policy import ForallSpec, chosen_spec, fallbacks
from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.lang.opencl import lowerings, register, unregister
from pydp.lang.opencl.simt import Simt


class Toy(Simt):
    """Work-items are lanes; groups without a given size have 8 lanes. It never is the default."""

    name = "toy"
    takes_barriers = False

    def default_reason(self, profile):
        return None

    def pick_group(self, rank, extent, profile):
        return (1,) * (rank - 1) + (8,) if rank else ()

    def remarks(self, function):
        return [f"{function.name} is lowered by a toy"]


class Refusing(Toy):
    """Cannot run anything, and is the default."""

    name = "refusing"

    def default_reason(self, profile):
        return "it comes first"

    def lower(self, function, profile, unit_strides=frozenset(), **options):
        raise UnsupportedOnDevice("nothing runs here")


@pytest.fixture
def toy():
    register(Toy())
    yield
    if "toy" in lowerings():
        unregister("toy")


def doubled(idx, out, a):
    out[idx] = 2 * a[idx]


def test_a_third_lowering_runs_and_is_explained_and_refused(device, toy):
    a, out = np.arange(100, dtype=np.int32), np.zeros(100, np.int32)
    pydp.forall((100,), doubled, out, a, spec={"mapping": "toy"})
    np.testing.assert_array_equal(out, 2 * a)
    found = pydp.explain(pydp.forall, (100,), doubled, out, a, spec={"mapping": "toy"})
    assert found.facts["mapping"] == "toy" and found.facts["group"] == (8,)
    assert "mapping toy: requested by spec=" in found.choices and "doubled is lowered by a toy" in found.choices
    unregister("toy")
    with pytest.raises(InvalidArgument, match="spec mapping is 'toy'; 'simt' and 'vector' are accepted"):
        pydp.forall((100,), doubled, out, a, spec={"mapping": "toy"})


def test_a_replaced_lowering_gets_new_plans(device, toy):
    a, out = np.arange(100, dtype=np.int32), np.zeros(100, np.int32)
    pydp.forall((100,), doubled, out, a, spec={"mapping": "toy"})

    class Wider(Toy):
        def pick_group(self, rank, extent, profile):
            return (16,)

    register(Wider())
    found = pydp.explain(pydp.forall, (100,), doubled, out, a, spec={"mapping": "toy"})
    assert found.facts["group"] == (16,)


def test_facts_of_a_lowering_decide_which_fields_apply(device, toy):
    profile = device.profile
    with pytest.raises(InvalidArgument, match="'toy'; barriers= and subgroup= apply only to mapping 'simt'"):
        chosen_spec({"mapping": "toy", "barriers": "none"}, profile)
    with pytest.raises(InvalidArgument, match="'simt', 'vector' and 'toy' are accepted"):
        chosen_spec(ForallSpec("scalar"), profile)
    assert chosen_spec({"barriers": "group"}, profile)[0].mapping == "simt"
    assert [one.mapping for one in fallbacks(ForallSpec("vector"))] == ["simt", "toy"]


def test_a_default_lowering_that_refuses_falls_back(device):
    before = lowerings()
    for name in before:
        unregister(name)
    for one in (Refusing(), *before.values()):
        register(one)
    try:
        a, out = np.arange(50, dtype=np.int32), np.zeros(50, np.int32)
        pydp.forall((50,), doubled, out, a)
        np.testing.assert_array_equal(out, 2 * a)
        found = pydp.explain(pydp.forall, (50,), doubled, out, a)
        assert "mapping simt: the mapping 'refusing' cannot run it: nothing runs here" in found.choices
    finally:
        unregister("refusing")
