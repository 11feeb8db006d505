"""Driver faults and properties that no OpenCL query reports, in one table.

A row applies to a driver and a range of its versions, never to a single machine. It names the symptom, the workaround
and the test that shows it. ``pydp doctor`` prints the rows that apply to each device. ``Profile.sources`` gives the
symptom of a row as the reason for the values that the row sets.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydp.runtime.forks import proc_text

_log = logging.getLogger("pydp")
_DRIVERS = (  # (part of the platform name, key); the first match is used
    ("oclgrind", "oclgrind"),
    ("portable computing language", "pocl"),
    ("rusticl", "rusticl"),
    ("clover", "clover"),
    ("nvidia", "nvidia"),
    ("amd", "amd"),
    ("intel", "intel"),
    ("apple", "apple"),
    ("arm", "arm"),
    ("qualcomm", "qualcomm"),
)
DRIVER_KEYS = frozenset(key for _, key in _DRIVERS)
_RANKS = {"nvidia": 0, "amd": 5, "intel": 10, "pocl": 20, "rusticl": 40, "oclgrind": 90}
_OTHER_RANK = 60
_CPU = frozenset({"cpu"})
_EVERY_KIND = frozenset({"cpu", "gpu", "accelerator"})


@dataclass(frozen=True)
class Quirk:
    """One row of the table.

    The affected driver versions are ``since <= version < until``. None means no bound; an unknown version counts as
    affected. `sets` maps fields of :class:`Quirks` to values, or to functions that compute a value from the device
    name. It is empty if kernels avoid the fault on every device. `shown_by` names the test (``FILE::FUNCTION``) that is
    right only if the row, or the kernels, avoid the fault; for a property, the test that states it.
    """

    driver: str
    symptom: str
    sets: Mapping[str, Any] = field(default_factory=dict)
    since: tuple[int, ...] | None = None
    until: tuple[int, ...] | None = None
    kinds: frozenset[str] = _EVERY_KIND
    device: str = ""  # a part of the device name, in lower case
    shown_by: str = ""

    def applies(self, driver: str, version: tuple[int, ...], device_name: str, kind: str) -> bool:
        """Whether a device with this driver, version, name and kind is affected."""
        if driver != self.driver or kind not in self.kinds or self.device not in device_name.lower():
            return False
        if not version:
            return True
        return (self.since is None or version >= self.since) and (self.until is None or version < self.until)

    @property
    def versions(self) -> str:
        """The affected versions as text: "from 7.0", "3.0 to before 7.0", "all versions"."""
        since, until = (".".join(map(str, bound)) if bound else "" for bound in (self.since, self.until))
        if since and until:
            return f"{since} to before {until}"
        return f"from {since}" if since else f"before {until}" if until else "all versions"


@dataclass(frozen=True)
class Quirks:
    """The combined effect of all rows that apply to one device. The defaults describe a driver without faults."""

    driver: str
    version: tuple[int, ...]
    is_simulator: bool = False
    barriers_under_conditions: bool = True
    loop_limit: int | None = None
    fma_fast: bool | None = None
    group_progress: bool = True
    most_groups: int = (1 << 63) - 1  # work-groups of a launch
    keeps_own_binaries: bool = False
    binaries_usable: bool = True
    subgroup_sizes: tuple[int, ...] | None = None
    simd_bytes: int | None = None
    flush_before_wait: bool = False
    hold_out_of_order_queues: bool = False
    kernel_group_size_known: bool = True
    unaligned_records: bool = True
    direct_host_memory: bool = False
    wide_powers: bool = True  # whether pow is right for vectors of 8 and 16 doubles
    half_functions: bool = True  # whether the driver has all half functions of OpenCL C
    builtin_header: tuple[str, str] | None = None  # the driver's library and its header (see programs.builtins_used)
    build_options: tuple[str, ...] = ()  # concatenated over the rows
    environment: Mapping[str, str] = field(default_factory=dict)  # variables for the driver, merged over the rows
    parsed_once: tuple[str, str] | None = None  # (library, build option); see `with_late_variables`
    probed_variables: tuple[str, ...] = ()  # variables that change the compiler; each value is probed separately
    rank: int = _OTHER_RANK
    rows: tuple[Quirk, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict, compare=False)

    def set_variables(self, environment: MutableMapping[str, str]) -> None:
        """Set the variables for the driver. A variable ``*_OPTIONS`` keeps the options that the user has set."""
        for name, value in self.environment.items():
            given = environment.get(name, "") if name.endswith("_OPTIONS") else ""
            environment[name] = given if value in given.split() else f"{given} {value}".strip()

    def with_late_variables(self) -> Quirks:
        """The quirks for a process that may have used the driver before its variables were set.

        The driver reads them once, when the process makes its first context. Programs of such a process are built
        without the option of `parsed_once`. Processes with the variables therefore do not load them from disk.
        """
        if self.parsed_once is None:
            return self
        library, option = self.parsed_once
        before = state_before_use()
        given = all(value in before.variables.get(name, "").split() for name, value in self.environment.items())
        if library not in before.libraries or given:
            return self
        _warn(library, " ".join(f"{name}={value}" for name, value in self.environment.items()))
        return replace(self, build_options=tuple(one for one in self.build_options if one != option))


@dataclass(frozen=True)
class StateBeforeUse:
    """libraries: the memory map of the process, which contains the libraries that it had loaded. variables: the
    environment that the process started with; the driver may not have read what was set later."""

    libraries: str
    variables: Mapping[str, str]


@functools.cache
def state_before_use() -> StateBeforeUse:
    """The state at the first call, which must be before pydp loads the drivers."""
    libraries, variables = proc_text("maps"), proc_text("environ")
    return StateBeforeUse(libraries, dict(one.partition("=")[::2] for one in variables.split("\0") if one))


@functools.cache
def _warn(library: str, variables: str) -> None:
    _log.warning(
        "%s was loaded before pydp set %s. If the program has made a context already, a fault of this driver's "
        "compiler is not avoided everywhere: expressions such as max(a - 1 - b, a) may have wrong results. Set the "
        "variable before the program starts, or call pydp.devices() first.",
        library,
        variables,
    )


def _named_width(device_name: str) -> int:
    """The vector width in bytes, from a name such as "llvmpipe (LLVM 15.0.6, 256 bits)"."""
    bits = re.search(r"(\d+) bits", device_name)
    return int(bits.group(1)) // 8 if bits else 16


TABLE = (
    # --- PoCL ------------------------------------------------------------------------------------------------
    Quirk(
        "pocl",
        "the compiler repeats loads after a barrier without their conditions: kernels read overwritten values, or "
        "crash at addresses that a condition excludes",
        {
            "environment": {"POCL_PREGION_VALUE_REMAT": "0"},
            # The key of PoCL's kernel cache contains the build options, but not the environment variables.
            "build_options": ("-DPOCL_VALUES_KEPT",),
        },
        since=(7, 0),
        shown_by="tests/runtime/test_probe.py::test_a_driver_does_not_pass_without_its_variable",
    ),
    Quirk(
        "pocl",
        "in work-groups of one work-item, the code after a condition that contains a loop runs twice",
        {
            "environment": {"POCL_FORCE_PARALLEL_OUTER_LOOP": "0"},
            "build_options": ("-DPOCL_LOOPS_AS_WRITTEN",),
        },
        since=(7, 0),
        shown_by="tests/runtime/test_probe.py::test_a_driver_does_not_pass_without_its_variable",
    ),
    Quirk(
        "pocl",
        "several releases miscompile barriers in divergent loops and branches",
        {"barriers_under_conditions": False},
        shown_by="tests/lang/test_simt.py::test_barriers_that_the_driver_miscompiles_are_refused",
    ),
    Quirk(
        "pocl",
        "vectorized loops read the wrong elements if the index is a loop counter that is multiplied and masked",
        {"build_options": ("-DKEEP_MASKED_INTEGERS",)},
        kinds=_CPU,
        shown_by="tests/algorithms/test_forall_masked_indexes.py::test_indexes_that_wrap",
    ),
    Quirk(
        "pocl",
        "fp16 is reported, but vector stores and several functions of half are missing: pydp defines them",
        {"half_functions": False},
        shown_by="tests/runtime/test_half_functions.py::test_values_of_every_function",
    ),
    Quirk(
        "pocl",
        "pow of 8 or 16 doubles gives x**-y for numbers beside others, such as 0: it is computed for 4 at a time",
        {"wide_powers": False},
        until=(7, 0),
        shown_by="tests/runtime/test_driver_faults.py::test_powers_of_vectors",
    ),
    Quirk(
        "pocl",
        "POCL_WORK_GROUP_METHOD selects compiler passes with different faults",
        {"probed_variables": ("POCL_WORK_GROUP_METHOD",)},
        shown_by="tests/runtime/test_probe.py::test_a_verdict_counts_for_the_variables_that_it_was_found_with",
    ),
    Quirk(
        "pocl",
        "the driver keeps built kernels in its own cache",
        {"keeps_own_binaries": True},
        shown_by="tests/runtime/test_program.py::test_built_programs_are_kept_on_disk_and_damage_is_a_miss",
    ),
    Quirk(
        "pocl",
        "every program begins with the declarations of all built-in functions, which takes a tenth of a second: pydp "
        "declares the functions that a program uses",
        {"builtin_header": ("libpocl", "share/pocl/include/_kernel.h")},
        since=(3, 0),
        shown_by="tests/runtime/test_builtins_used.py::test_programs_are_built_with_the_declarations_that_they_use",
    ),
    Quirk(
        "pocl",
        "kernels use the memory of a CL_MEM_USE_HOST_PTR buffer itself, so results are complete without a map and an "
        "unmap (20 microseconds): pydp waits for the last event instead",
        {"direct_host_memory": True},
        kinds=_CPU,
        shown_by="tests/runtime/test_direct_host_memory.py::test_results_are_complete_without_a_map",
    ),
    Quirk(
        "pocl",
        "the driver counts the work-groups of a launch with 32 bits: forall refuses larger grids",
        {"most_groups": (1 << 32) - 1},
        kinds=_CPU,
        shown_by="tests/algorithms/test_forall_huge_grids.py::test_more_groups_than_the_driver_counts",
    ),
    Quirk(
        "pocl",
        "mem_fence does nothing: work-groups communicate only by atomics",
        shown_by="tests/algorithms/test_lookback.py::test_a_slot_whose_words_are_not_all_there_is_none",
    ),
    Quirk(
        "pocl",
        "in work-groups of size 1 along dimension 0 and larger sizes along others, the first work-item runs code after "
        "a condition that contains a loop twice: pydp places such work-groups along dimension 0",
        shown_by="tests/algorithms/test_forall_narrow_groups.py::test_each_lane_of_a_narrow_group_runs_each_statement_once",
    ),
    Quirk(
        "pocl",
        "the last, partial work-group of a range is miscompiled: ranges are padded to full work-groups",
        shown_by="tests/runtime/test_driver_faults.py::test_the_last_work_group_of_a_range_is_whole",
    ),
    Quirk(
        "pocl",
        "barriers in loops with 64-bit counters or data-dependent trip counts are miscompiled: kernels use neither",
        shown_by="tests/runtime/test_driver_faults.py::test_barriers_in_loops_with_uniform_trip_counts",
    ),
    # --- Intel's CPU and GPU runtimes ------------------------------------------------------------------------
    Quirk(
        "intel",
        "no query reports the sizes that intel_reqd_sub_group_size accepts on CPUs",
        {"subgroup_sizes": (8, 16, 32, 64)},
        kinds=_CPU,
        shown_by="tests/lang/test_barriers.py::test_subgroups_are_runs_of_lanes",
    ),
    Quirk(
        "intel",
        "no query reports the sizes that intel_reqd_sub_group_size accepts on GPUs",
        {"subgroup_sizes": (8, 16, 32)},
        kinds=_EVERY_KIND - _CPU,
        shown_by="tests/runtime/test_driver_faults.py::test_properties_that_the_table_states",
    ),
    Quirk(
        "intel",
        "vectorized work-items read wrong elements of private arrays; the compiler crashes when it vectorizes some "
        "loops with divisions, or nested loops whose conditions use a quotient",
        {"build_options": ("-DPRIVATE_FIELDS_APART", "-DDIVIDING_LOOPS_AS_WRITTEN", "-DKEEP_QUOTIENTS")},
        kinds=_CPU,
        shown_by="tests/algorithms/test_forall_division_loops.py::test_loops_that_divide",
    ),
    Quirk(
        "intel",
        "scalar code with the complement of an integer, also as a - 1 - b, and a minimum, maximum or selection gives "
        "wrong results or ends the process with an illegal instruction: a pass of the compiler is disabled",
        {
            "environment": {"CL_CONFIG_LLVM_OPTIONS": "-disable-x86-scalar-to-vector"},
            # The key of pydp's kernel cache contains the build options, but not the environment variables.
            "build_options": ("-DSCALAR_TO_VECTOR_DISABLED",),
            "parsed_once": ("libintelocl", "-DSCALAR_TO_VECTOR_DISABLED"),
        },
        since=(2026, 22),
        until=(2026, 23),  # other versions may end the process, because they do not know the option
        kinds=_CPU,
        shown_by="tests/runtime/test_driver_faults.py::test_complements_and_extremes",
    ),
    Quirk(
        "intel",
        "the same fault in a process that made a context before pydp could disable the pass: ~a is computed as a ^ m, "
        "where m is -1 but not a constant for the compiler",
        {"build_options": ("-DHIDE_COMPLEMENT",)},
        since=(2026, 22),
        kinds=_CPU,
        shown_by="tests/runtime/test_driver_faults.py::test_complements_in_a_context_made_before_pydp_was_used",
    ),
    Quirk(
        "intel",
        "the compiler defines no macros for the processor's instructions and has no functions for them. It compiles a "
        "shuffle with a variable mask to few instructions: kernels move kept elements by shuffles",
        {"build_options": ("-DFAST_SHUFFLES",)},
        kinds=_CPU,
        shown_by="tests/algorithms/test_select.py::test_kept_elements_are_moved_by_vectors",
    ),
    Quirk(
        "intel",
        "each built program uses several megabytes: pydp bounds its program cache",
        shown_by="tests/algorithms/test_bounded_caches.py::test_programs_of_distinct_operators_are_freed",
    ),
    Quirk(
        "intel",
        "a thread hangs if an out-of-order queue is released while its commands run",
        {"hold_out_of_order_queues": True},
        kinds=_CPU,
        shown_by="tests/runtime/test_queue_order.py::test_queues_may_be_dropped_while_their_commands_are_pending",
    ),
    Quirk(
        "intel",
        "the compiler crashes when it vectorizes a loop with several reductions by an operator such as max((1 == "
        "max(a != 0, a)) - (b * a == b), a): reduce_rows_vector.mako keeps it from doing so",
        kinds=_CPU,
        shown_by="tests/runtime/test_driver_faults.py::test_reductions_of_comparisons_and_extremes_compile",
    ),
    Quirk(
        "intel",
        "loops over one-element private arrays of records are miscompiled",
        shown_by="tests/runtime/test_driver_faults.py::test_loops_over_private_arrays_of_one_record",
    ),
    Quirk(
        "intel",
        "unsigned comparisons with a work-item id may be folded incorrectly: kernels use ids as int or long",
        shown_by="tests/runtime/test_driver_faults.py::test_unsigned_comparisons_with_indexes",
    ),
    # --- rusticl ---------------------------------------------------------------------------------------------
    Quirk(
        "rusticl",
        "the process is aborted if a launch has 2**32 work-groups: forall refuses such grids",
        {"most_groups": (1 << 32) - 1},
        shown_by="tests/algorithms/test_forall_huge_grids.py::test_more_groups_than_the_driver_counts",
    ),
    Quirk(
        "rusticl",
        "commands that another queue waits for do not start without a flush",
        {"flush_before_wait": True},
        shown_by="tests/runtime/test_program.py::test_events_of_another_queue_are_waited_for",
    ),
    Quirk(
        "rusticl",
        "all loops of a work-item end after 65,535 iterations, without an error",
        {"loop_limit": 65535},
        device="llvmpipe",
        shown_by="tests/algorithms/test_cut_loops.py::test_loops_are_whole_or_refused",
    ),
    Quirk(
        "rusticl",
        "fma() calls a library routine",
        {"fma_fast": False},
        device="llvmpipe",
        shown_by="tests/runtime/test_driver_faults.py::test_properties_that_the_table_states",
    ),
    Quirk(
        "rusticl",
        "the device name contains the vector width",
        {"simd_bytes": _named_width},
        device="llvmpipe",
        shown_by="tests/runtime/test_quirks.py::test_rows_add_up_and_give_reasons",
    ),
    Quirk(
        "rusticl",
        "comparisons of a widened int with a constant give wrong results, also after a conversion to float, as do "
        "selections between a widened byte or short and a constant",
        {"build_options": ("-DORDER_UNSIGNED", "-DWIDEN_BY_ARITHMETIC")},
        device="llvmpipe",
        shown_by="tests/lang/test_wide_order.py::test_widened_integers_and_constants",
    ),
    Quirk(
        "rusticl",
        "a `? :` between an int8 and a constant gives 0 for the constant, or crashes the compiler; kernels compute it "
        "by arithmetic or branch",
        device="llvmpipe",
        shown_by="tests/algorithms/test_segments.py::test_empty_segments_of_small_integers",
    ),
    Quirk(
        "rusticl",
        "records with misaligned members are corrupted in private and local variables",
        {"unaligned_records": False},
        device="llvmpipe",
        shown_by="tests/test_dtypes.py::test_records_share_their_bytes",
    ),
    Quirk(
        "rusticl",
        "the reported maximum work-group size of every kernel is 32; the limit of the device applies instead",
        {"kernel_group_size_known": False},
        device="llvmpipe",
        shown_by="tests/runtime/test_driver_faults.py::test_kernels_run_in_groups_of_the_size_that_they_report",
    ),
    Quirk(
        "rusticl",
        "?: between records and loads of unused records end the process: kernels contain neither",
        device="llvmpipe",
        shown_by="tests/lang/test_simt.py::test_records_are_loaded_stored_and_selected",
    ),
    Quirk(
        "rusticl",
        "division of bytes gives wrong results: kernels divide in int",
        device="llvmpipe",
        shown_by="tests/lang/test_scalar.py::test_integers",
    ),
    # --- others ----------------------------------------------------------------------------------------------
    Quirk(
        "oclgrind",
        "a simulator",
        {"is_simulator": True, "fma_fast": False, "simd_bytes": 16},
        shown_by="tests/runtime/test_driver_faults.py::test_properties_that_the_table_states",
    ),
    Quirk(
        "oclgrind",
        "every program begins with the declarations of all built-in functions, which takes a quarter of a second: pydp "
        "declares the functions that a program uses",
        {"builtin_header": ("liboclgrind", "oclgrind/*/opencl-c.h")},
        shown_by="tests/runtime/test_builtins_used.py::test_programs_are_built_with_the_declarations_that_they_use",
    ),
    Quirk(
        "oclgrind",
        "program binaries cannot be loaded again",
        {"binaries_usable": False},
        shown_by="tests/runtime/test_program.py::test_built_programs_are_kept_on_disk_and_damage_is_a_miss",
    ),
    Quirk(
        "oclgrind",
        "the compiler replaces a / b and a % b by an instruction (freeze) that the simulator does not know",
        {"build_options": ("-cl-opt-disable",)},
        shown_by="tests/runtime/test_driver_faults.py::test_division_and_remainder",
    ),
    Quirk(
        "nvidia",
        "the driver keeps built kernels in its own cache",
        {"keeps_own_binaries": True},
        shown_by="tests/runtime/test_driver_faults.py::test_properties_that_the_table_states",
    ),
)


def driver_key(platform_name: str) -> str:
    """The short name of the driver of an OpenCL platform; ``other`` if it is unknown."""
    name = platform_name.lower()
    return next((key for part, key in _DRIVERS if part in name), "other")


def version_of(text: str) -> tuple[int, ...]:
    """The leading numbers of a version text: ``3.1+debian`` is (3, 1)."""
    match = re.search(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def quirks_of(platform_name: str, device_name: str, driver_version: str, kind: str) -> Quirks:
    """The quirks of a device; `kind` is "cpu", "gpu" or "accelerator"."""
    driver, version = driver_key(platform_name), version_of(driver_version)
    rows = tuple(row for row in TABLE if row.applies(driver, version, device_name, kind))
    if driver not in _RANKS:
        unknown = "an unknown driver does not guarantee forward progress between work-groups"
        rows = (*rows, Quirk(driver, unknown, {"group_progress": False}))
    values: dict[str, Any] = {"build_options": (), "environment": {}}
    reasons: dict[str, str] = {}
    for row in rows:
        for name, value in row.sets.items():
            if name == "build_options":
                values[name] += value
            elif name == "environment":
                values[name] |= value
            else:
                values[name] = value(device_name) if callable(value) else value
            reasons[name] = f"{reasons[name]}; {row.symptom}" if name in reasons else row.symptom
    return Quirks(driver, version, rank=_rank(driver, device_name), rows=rows, reasons=reasons, **values)


def _rank(driver: str, device_name: str) -> int:
    """The rank of a driver among devices of one kind; lower is preferred."""
    if driver == "rusticl" and "llvmpipe" not in device_name.lower():
        return 30
    return _RANKS.get(driver, _OTHER_RANK)
