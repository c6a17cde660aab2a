"""Measurements: every raw sample in the order in which it was taken; summaries are computed."""

from __future__ import annotations

from phasewise.records.base import Bytes, CaseRecord, Counted, Joules, Record, Scalar, Seconds, StageRecord
from phasewise.records.verdict import Failure


class Sample(Record, frozen=True, kw_only=True):
    """One block of one arm within one round."""

    arm: str
    steps: Counted
    # host to host, synchronised, for the whole block
    wall_s: Seconds
    # from before the first launch to the end of the last kernel, by events on the device: not what it was busy for; None on a CPU
    device_s: Seconds | None = None
    # the same block by the clock of the process that asked for it
    parent_s: Seconds | None = None
    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle_bits: int | None = None


class Round(Record, frozen=True, kw_only=True):
    """One block of every arm, in shuffled order."""

    # index of the set of fresh processes
    process_set: int
    # in the order in which they ran
    samples: tuple[Sample, ...]
    # why the whole round does not count; "" where it does
    dropped: str = ""
    # load of other processes per core, and other processes on the GPU
    neighbour_load: float | None = None
    neighbours: int = 0


class Window(Record, frozen=True, kw_only=True):
    """Energy of one arm over one window."""

    steps: int
    seconds: Seconds
    joules: Joules


class Arm(Record, frozen=True, kw_only=True):
    """One program of a comparison, in one or more fresh processes."""

    # "parent" and "variant", of a control the same twice; "baseline" and a peer's name in a headline
    arm: str
    variant: str
    switches: dict[str, Scalar] = {}
    ranks: int = 1
    items: float = 1.0
    version: str = ""
    # the first of its processes began with empty compile caches
    fresh_caches: bool = False
    # one entry a process set
    build_s: tuple[Seconds, ...] = ()
    first_step_s: tuple[Seconds, ...] = ()
    warmup_steps: tuple[int, ...] = ()
    # single steps, timed one by one after the rounds of the first set
    step_s: tuple[Seconds, ...] = ()
    # placing one canonical batch
    place_s: tuple[Seconds, ...] = ()
    # of blocks after the processes of all other arms had ended, a step
    alone_s: tuple[Seconds, ...] = ()
    peak_memory_bytes: Bytes | None = None
    memory_kind: str = "host-resident"
    energy: tuple[Window, ...] = ()
    idle_power_w: float | None = None
    # outputs checked again after timing; None where that could not be done
    outputs_held: bool | None = None
    failure: Failure | None = None
    # names of the files that its processes loaded; on record the variant's stand with their hashes beside the cases
    loaded: tuple[str, ...] = ()


class Inspection(Record, frozen=True, kw_only=True):
    """What the last step of a timed block gave, compared with what is right."""

    arm: str
    process_set: int
    # with the float64 reference; else with what the parent arm gives for the same batch
    is_known: bool
    # largest error in units of what is allowed
    worst: float | None = None
    # why it is wrong; "" if it is not
    wrong: str = ""


class Refresh(Record, frozen=True, kw_only=True):
    """One pass of the variant over new contents of its batches, and what that is compared with; "s", or "operators" where only a
    count can tell.
    """

    process_set: int
    # of a pass
    steps: int
    unit: str
    # over new contents, and over the same contents written once more
    fresh: float
    sham: float
    # the mean of several passes in a row over new contents, where operators are counted
    many: float | None = None
    # what the parent takes for a pass over new contents, where time is
    parent: float | None = None
    # whether every pass came right after its process had taken its contents in: after a wait, the first step is slower
    at_once: bool = False


class Arrival(Record, frozen=True, kw_only=True):
    """A pass over new contents on a CPU, by the parent's clock."""

    arm: str
    process_set: int
    # of a pass
    steps: int
    # from when new contents were handed to the process until it had handed its result back
    whole_s: Seconds
    # to hand both over once more, with no step between
    handing_s: Seconds
    # of the steps alone, by the process's own clock; None in older records
    steps_s: Seconds | None = None


class ShortBlock(Record, frozen=True, kw_only=True):
    """A block of a program with state that is short enough for the reference to follow."""

    arm: str
    process_set: int
    steps: int
    wall_s: Seconds


class ScalePoint(Record, frozen=True, kw_only=True):
    """The baseline at one smaller shape, for a baseline that is too slow at the real one."""

    shape: dict[str, Scalar]
    items: float
    wall_s: tuple[Seconds, ...]
    # of one step, as PyTorch dispatches them, and elements that they read and write; 0 where nothing was counted
    operators: int = 0
    elements: int = 0


class CaseMeasurement(Record, frozen=True, kw_only=True):
    """Programs of one case in the same rounds."""

    case: str
    arms: tuple[Arm, ...]
    rounds: tuple[Round, ...] = ()
    scale: tuple[ScalePoint, ...] = ()
    inspections: tuple[Inspection, ...] = ()
    refreshes: tuple[Refresh, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    short_blocks: tuple[ShortBlock, ...] = ()
    # why sampling ended
    stopped: str = ""
    seconds: Seconds = 0.0
    skipped: Failure | None = None


class Measurement(StageRecord, frozen=True, kw_only=True):
    """The measure stage of one variant."""

    # digest of what was predicted of it, as it stood when measuring began; "" where nothing was on record
    predicted: str = ""
    cases: tuple[CaseMeasurement, ...]


class SmallerMeasurement(Record, frozen=True, kw_only=True):
    """Baseline and end of the stack in the same rounds, at a shape that a slow baseline can run."""

    shape: dict[str, Scalar]
    measured: CaseMeasurement


class HeadlineMeasurement(CaseRecord, frozen=True, kw_only=True):
    """Baseline, end of the stack and peers of one case in the same rounds: its arms are "baseline", "variant", and variants by name."""

    # the end of the stack whose own rounds beside its parent, the baseline, are all that it would have; it has none then
    own_of: str = ""
    measured: CaseMeasurement
    # where the baseline is too slow for the shape of the case
    smaller: tuple[SmallerMeasurement, ...] = ()


class ControlMeasurement(CaseRecord, frozen=True, kw_only=True):
    """The end of the stack of one case beside itself: its arms are "parent" and "variant"."""

    measured: CaseMeasurement
