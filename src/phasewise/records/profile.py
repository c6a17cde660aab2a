"""Profiles: where the time of a step goes, from traces and counters; profiled runs never give timings."""

from __future__ import annotations

from phasewise.records.base import Bytes, Record, Scalar, Seconds, StageRecord
from phasewise.records.machine import Sensors
from phasewise.records.verdict import Failure

# how torch begins the name of the region of an optimizer's step
OPTIMIZER = "Optimizer.step"
# region of what an optimizer's step is handed to call: a whole step of training, and no work of the optimizer
CLOSURE = "closure of the optimizer"


class Breakdown(Record, frozen=True, kw_only=True):
    """Disjoint parts of one profiled step; they sum to its wall time."""

    wall_s: Seconds
    kernel_s: Seconds = 0.0
    launch_gap_s: Seconds = 0.0
    sync_wait_s: Seconds = 0.0
    copy_s: Seconds = 0.0
    communication_s: Seconds = 0.0
    input_s: Seconds = 0.0
    # what remains: Python and operators on the host
    host_s: Seconds = 0.0


class Region(Record, frozen=True, kw_only=True):
    """A named region of the step (record_function), with what its removal could gain at most."""

    name: str
    calls_per_step: float
    seconds: Seconds
    # share of the step's wall time
    share: float
    # Amdahl: 1 / (1 - share)
    bound: float | None
    breakdown: Breakdown | None = None


class Kernel(Record, frozen=True, kw_only=True):
    """One device kernel, or on a CPU one operator's own time, per step."""

    name: str
    calls: float
    seconds: Seconds
    # gemm, convolution, attention, reduction, elementwise, scan, copy, communication, other
    category: str
    tensor_core: bool = False
    dtype: str = ""
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    registers: int | None = None
    shared_bytes: Bytes | None = None
    # an estimate from the launch geometry, not a counter
    occupancy: float | None = None


class Stretch(Record, frozen=True, kw_only=True):
    """A part of the step that was drawn out, from its start on; parts are those of `Breakdown`, in words."""

    part: str
    start_s: Seconds
    seconds: Seconds
    # the kernel that ran, of those that hold most; "" for others, and for other parts
    kernel: str = ""


class Operator(Record, frozen=True, kw_only=True):
    """One operator on the host, per step."""

    name: str
    calls: float
    self_s: Seconds
    device_s: Seconds
    shapes: str = ""
    flops: float | None = None


class Count(Record, frozen=True, kw_only=True):
    """Things counted per step, for the findings."""

    launches: float = 0
    graph_launches: float = 0
    synchronisations: float = 0
    host_to_device: float = 0
    device_to_host: float = 0
    pageable_copies: float = 0
    copied_bytes: float = 0
    allocations: float = 0
    allocation_retries: float = 0
    graph_breaks: float = 0
    recompiles: float = 0
    # passes of the longest loop of operators, the heaviest operator of its body, operators in one pass, time of all passes
    serial_repeats: float = 0
    serial_operator: str = ""
    serial_period: float = 0
    serial_s: Seconds = 0.0
    # calls that did what an earlier call of the step had done on the same unchanged tensors, the costliest of these operators,
    # and the time of all of them
    repeated_calls: float = 0
    repeated_operator: str = ""
    repeated_s: Seconds = 0.0


class MemoryEvent(Record, frozen=True, kw_only=True):
    """One point of the allocator's history."""

    at_s: Seconds
    allocated_bytes: Bytes


class Memory(Record, frozen=True, kw_only=True):
    """What the allocator held."""

    peak_bytes: Bytes | None = None
    reserved_bytes: Bytes | None = None
    capacity_bytes: Bytes | None = None
    allocations_per_step: float | None = None
    timeline: tuple[MemoryEvent, ...] = ()
    largest: tuple[tuple[str, Bytes], ...] = ()


class Counters(Record, frozen=True, kw_only=True):
    """Hardware counters of one kernel, from Nsight Compute."""

    kernel: str
    launches: int
    duration_s: Seconds
    dram_bytes: float | None = None
    dram_percent: float | None = None
    sm_percent: float | None = None
    occupancy_percent: float | None = None
    tensor_percent: float | None = None
    l2_hit_percent: float | None = None
    registers: int | None = None
    metrics: dict[str, float] = {}


class SystemTimeline(Record, frozen=True, kw_only=True):
    """What Nsight Systems saw."""

    kernel_s: Seconds
    memcpy_s: Seconds
    api_s: Seconds
    kernels: int
    steps: int
    gpu_busy_share: float | None = None
    top_api: tuple[tuple[str, Seconds], ...] = ()


class Capture(Record, frozen=True, kw_only=True):
    """One file that a tool wrote, or why there is none."""

    # "torch", "memory", "nsys", "ncu", "nvml"
    tool: str
    path: str = ""
    bytes: Bytes = 0
    skipped: str = ""
    cure: str = ""
    # what a reader of the file should know
    note: str = ""


class Probe(Record, frozen=True, kw_only=True):
    """An alternative tried on the recorded shapes: a prediction by experiment."""

    finding: str
    what: str
    now_s: Seconds
    then_s: Seconds
    calls: float


class SecondOpinion(Record, frozen=True, kw_only=True):
    """The same step as torch-tb-profiler reads it, per step."""

    available: bool
    reason: str = ""
    version: str = ""
    parts: dict[str, Seconds] = {}
    # largest relative difference of kernel time to our own parser
    disagreement: float | None = None


class CaseProfile(Record, frozen=True, kw_only=True):
    """One variant in one case."""

    case: str
    steps: int = 0
    breakdown: Breakdown | None = None
    # the step of the breakdown from start to end; empty in records that were made before it was kept
    stretches: tuple[Stretch, ...] = ()
    regions: tuple[Region, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    operators: tuple[Operator, ...] = ()
    count: Count = Count()
    # replays of CUDA graphs hide kernels: attribution comes from the same step without its graphs, or findings abstain
    graph_replay: bool = False
    attributed_by: str = "trace"
    # traced wall time over untraced
    overhead: float | None = None
    memory: Memory = Memory()
    sensors: tuple[Sensors, ...] = ()
    counters: tuple[Counters, ...] = ()
    timeline: SystemTimeline | None = None
    probes: tuple[Probe, ...] = ()
    second_opinion: SecondOpinion | None = None
    captures: tuple[Capture, ...] = ()
    # what the program says about itself: compile modes, dtypes of its parameters
    facts: dict[str, Scalar] = {}
    # with the Nsight tools; 0 in records that were made before it was kept
    seconds: Seconds = 0.0
    failure: Failure | None = None


class Profile(StageRecord, frozen=True, kw_only=True):
    """The profile stage of one variant."""

    cases: tuple[CaseProfile, ...]
