"""The corpus: what must refuse each cheat, and how it wins where nobody looks. Classes and sources stand in the files' docstrings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent
HONEST = tuple(sorted(path.stem for path in (HERE / "honest").glob("*.py")))
# not programs
PARTS = frozenset(
    {"campaign", "corpus", "costly", "honest_parts", "pipes", "play", "test_cheats", "test_corpus", "unwatched"}
)


@dataclass(frozen=True, kw_only=True)
class Cheat:
    """One file of this folder."""

    # the gate; the measurement, by what it looks at, refreshes and times; or the first of them that sees it
    refused_by: Literal["gate", "timed", "either"]
    # less work, less time told, more time of the parent
    wins_by: Literal["work", "told", "parent"] = "work"
    cuda: bool = False
    size: str = "tiny"


def _all(names: str, **fields: str | bool) -> dict[str, Cheat]:
    return {name: Cheat(**fields) for name in names.split()}  # type: ignore[arg-type]


CORPUS: dict[str, Cheat] = {
    # results that are wrong whenever they are looked at
    **_all(
        "fewer_layers fewer_rows broadcast_output overlapping_rows transposed_output nan_everywhere narrow_output quantized_output sparse_sum "
        "meta_output reads_old_memory half_step part_batch loss_only optimizer_frozen",
        refused_by="gate",
    ),
    "sampled_items_only": Cheat(refused_by="gate", size="full"),
    # what it is compared with
    **_all("wide_phase_tolerance wide_tier reference_in_float32 reference_is_nan", refused_by="gate"),
    # outputs that are not there yet, and untimed hooks
    **_all("lazy_subclass instance_method lazy_mapping work_in_outputs work_in_state", refused_by="either"),
    **_all("work_in_place half_in_place work_in_load", refused_by="either"),
    **_all("outputs_beside_torch outputs_by_thread outputs_late place_beside_torch place_copies", refused_by="either"),
    # the judge itself
    **_all(
        "checker_patched steals_reference expected_made_nan forged_gate forged_at_exit edits_plan edits_record",
        refused_by="either",
    ),
    # who looks
    **_all(
        "sniffs_modules sniffs_stack sniffs_inspect sniffs_arguments sniffs_environment sniffs_gc sniffs_clones",
        refused_by="timed",
    ),
    # the clock
    **_all(
        "private_clock clock_below_python bench_globals bench_code frame_walk channel_patched pipe_interposed",
        refused_by="timed",
        wins_by="told",
    ),
    # remembering
    **_all(
        "remembers_checksum remembers_first_element remembers_content remembers_pointer remembers_version remembers_in_c "
        "remembers_on_disk remembers_in_operator sniffs_counting counts_alike works_while_collecting mode_left_on knows_the_seeds replays_by_counter batch_and_skip once_a_block",
        refused_by="timed",
    ),
    # when nobody is thought to look any more
    **_all(
        "skips_long_blocks every_other_late zeros_late constant_late stale_late nan_late half_the_rows_late one_wrong_row_late "
        "random_rows_late bfloat16_late low_rank_late slow_start late_thread late_process work_declared_low training_stops "
        "training_stops_late stale_gradient_late idle_rank",
        refused_by="timed",
    ),
    # the parent
    **_all("burns_cores poisons_cache stops_parent", refused_by="timed", wins_by="parent"),
    # written to be run on a GPU; nothing is claimed of them
    **_all(
        "gpu_side_stream_late gpu_thread_launches gpu_stale_graph gpu_graph_not_replayed gpu_other_graph_late gpu_persisting_l2 "
        "gpu_allocator_leftover gpu_scans_memory gpu_bfloat16_late gpu_tf32_late gpu_pinned_copy gpu_remembers_checksum "
        "gpu_partial_kernel",
        refused_by="timed",
        cuda=True,
    ),
    "gpu_work_in_place": Cheat(refused_by="either", cuda=True),
    **_all(
        "gpu_stream_switched gpu_event_patched gpu_synchronize_patched", refused_by="timed", wins_by="told", cuda=True
    ),
    "gpu_hogs": Cheat(refused_by="timed", wins_by="parent", cuda=True),
}
