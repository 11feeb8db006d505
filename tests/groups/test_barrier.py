"""The choice of barriers, from made-up profiles: known answers, what may never be chosen, errors."""

from __future__ import annotations

import pytest
from made_up import profile

from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.groups.barrier import Barriers, check_choice, subgroup_sizes

pytestmark = pytest.mark.host

PLAIN = profile()
CHOOSES = profile("cl_intel_required_subgroup_size", sizes=(8, 16, 32, 64))
WAVES = profile("cl_khr_subgroups", sizes=(64,))
MANY = profile("cl_khr_subgroups", sizes=(8, 16))
NVIDIA = profile("cl_nv_device_attribute_query")


@pytest.mark.parametrize(
    ("rules", "widths", "kinds"),
    [
        (Barriers(PLAIN, 64, 64), (1, 2, 64), "none group group"),
        (Barriers(profile(lockstep=32), 64, 64), (1, 16, 32, 64), "none none none group"),
        (Barriers(profile(lockstep=32), 48, 48), (1, 16, 24), "none group group"),
        (Barriers(CHOOSES, 64, 64, 16), (1, 8, 16, 32, 64), "none subgroup subgroup group group"),
        (Barriers(CHOOSES, 48, 48, 16), (3, 8, 12, 24), "group subgroup group group"),
        (Barriers(CHOOSES, 64, 8, 16), (1, 8), "none group"),
        (Barriers(CHOOSES, 64, 64, 64), (64,), "subgroup"),
        (Barriers(NVIDIA, 256, 16), (1, 2, 32, 64, 128, 256), "none warp warp named named group"),
        (Barriers(NVIDIA, 1024, 1024), (32, 64, 128, 256, 512), "warp named named named named"),
        (Barriers(NVIDIA, 48, 48), (16, 24), "group group"),
        (Barriers(NVIDIA, 192, 192), (3, 6, 96, 64), "named named named group"),
        (Barriers(NVIDIA, 256, 256, choice="named"), (1, 32, 256), "named named group"),
        (Barriers(NVIDIA, 256, 256, choice="subgroup"), (1, 32, 64), "warp warp group"),
        (Barriers(CHOOSES, 64, 64, 8, "group"), (1, 8, 64), "group group group"),
        (Barriers(CHOOSES, 64, 64, 8, "none"), (1, 8, 64), "none group group"),
    ],
)
def test_known_choices(rules, widths, kinds):
    assert [rules.lowering(width).kind for width in widths] == kinds.split()


def test_reasons_do_not_depend_on_who_chose():
    """Whole groups may be the default of a kernel: nobody has asked for them then."""
    found = Barriers(CHOOSES, 64, 64, choice="group")
    reasons = [found.lowering(width).reason for width in (8, 64)]
    assert reasons == ["barriers is 'group'", "the barrier is as wide as the group"]


def test_a_named_barrier_of_64_of_1024_lanes_is_widened_to_128():
    found = Barriers(NVIDIA, 1024, 1024).lowering(64)
    assert found.width == 128 and "8 hardware barriers of 128" in found.reason


@pytest.mark.parametrize("given", [PLAIN, CHOOSES, WAVES, NVIDIA, profile(lockstep=32), profile(lockstep=64)])
@pytest.mark.parametrize("size", [1, 6, 16, 48, 64, 96, 256, 768, 1024])
def test_nobody_is_left_out(given, size):
    """Each run of `width` lanes is inside one run of the lanes that synchronize, for every implementation."""
    for row in {size, max(1, size // 4)}:
        for subgroup in (0, *subgroup_sizes(given, row)):
            rules = Barriers(given, size, row, subgroup)
            for width in (w for w in range(1, size + 1) if size % w == 0):
                found = rules.lowering(width)
                assert found.width >= width and found.width % width == 0 and found.reason
                assert found.kind == "none" or size % found.width == 0


def test_hardware_barriers_of_two_widths_never_share_an_id():
    for size in range(64, 1025, 32):
        owners: dict[int, set[tuple[int, int]]] = {}
        rules = Barriers(NVIDIA, size, size, choice="named")
        for width in (w for w in range(1, size + 1) if size % w == 0):
            found = rules.lowering(width)
            if found.kind == "named":
                for run in range(size // found.width):
                    owners.setdefault(size // found.width + run, set()).add((found.width, run))
        assert all(len(one) == 1 for one in owners.values())
        assert all(0 < number < 16 for number in owners)


def test_sizes_that_a_kernel_can_be_sure_of():
    assert subgroup_sizes(CHOOSES, 16) == (8, 16)
    assert subgroup_sizes(WAVES, 128) == (64,)
    assert subgroup_sizes(MANY, 128) == ()  # the driver picks one of them, and does not say which


@pytest.mark.parametrize(
    ("given", "choice", "subgroup", "error", "words"),
    [
        (PLAIN, "warp", None, InvalidArgument, "'warp'.*'auto', 'group', 'none', 'subgroup', 'named'"),
        (PLAIN, "subgroup", None, UnsupportedOnDevice, "no subgroups of known layout"),
        (PLAIN, "named", None, UnsupportedOnDevice, "NVIDIA"),
        (CHOOSES, "auto", 12, UnsupportedOnDevice, "is 12; with rows of 64 lanes, .* 8 or 16 or 32 or 64"),
        (CHOOSES, "auto", "16", InvalidArgument, "'16'; a positive integer"),
        (CHOOSES, "auto", True, InvalidArgument, "True; a positive integer"),
    ],
)
def test_what_cannot_be_is_refused(given, choice, subgroup, error, words):
    with pytest.raises(error, match=words):
        check_choice(given, choice, subgroup, 64, 64)
