"""The machine and the versions that a number belongs to, with its measured peaks."""

from __future__ import annotations

from phasewise.records.base import SCHEMA, Bytes, Interval, Positive, Record, Seconds

# number formats whose matrix products are timed
RATES = ("float64", "float32", "tf32", "bfloat16", "float16")


class Peaks(Record, frozen=True, kw_only=True):
    """Ceilings measured on this machine; a rate is absent where it could not be measured."""

    # device copy, bytes read plus bytes written
    copy_bytes_per_s: Positive
    # square matrix product on random data, by one of RATES
    matmul_flops_per_s: dict[str, Positive]
    # copy rate of a working set that fits in the last-level cache
    cached_copy_bytes_per_s: Positive | None = None
    # one eager launch, back to back
    launch_s: Seconds | None = None
    # one node of a CUDA graph
    graph_node_s: Seconds | None = None
    # a round trip of `.item()`
    sync_s: Seconds | None = None


class Tool(Record, frozen=True, kw_only=True):
    """An optional tool: where it is, or why it can't be used and what would cure that."""

    name: str
    available: bool
    version: str = ""
    reason: str = ""
    cure: str = ""


class Machine(Record, frozen=True, kw_only=True):
    """One machine, named without its host: records of two machines are never chained."""

    schema: int = SCHEMA
    # the second half of a run's name, such as `cpu`, `h200`, `h200x4`
    device: str
    # "cpu" or "cuda"
    kind: str
    # model name of the GPU, or of the processor
    name: str
    gpus: int = 0
    capability: tuple[int, int] | None = None
    memory_bytes: Bytes = 0
    cache_bytes: Bytes = 0
    multiprocessors: int = 0
    driver: str = ""
    cuda: str = ""
    power_limit_w: float | None = None
    cores: int = 1
    python: str = ""
    # package name -> version, of those that can change a number
    versions: dict[str, str] = {}
    tools: tuple[Tool, ...] = ()
    peaks: Peaks | None = None

    @property
    def identity(self) -> str:
        """What must agree for two records to be compared: what one job has of the machine.

        A run of full-h200 may be taken up on a host with more such GPUs; what has several to itself is named full-h200x4.
        """
        power = "" if self.power_limit_w is None else f"{self.power_limit_w:.0f} W"
        cores = f"{self.cores // max(self.gpus, 1)} cores"
        return "; ".join(part for part in (self.name, self.driver, power, cores) if part)


class Sensors(Record, frozen=True, kw_only=True):
    """One reading of the device's sensors."""

    # seconds since the reading began
    at_s: Seconds
    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    utilisation_percent: float | None = None
    memory_used_bytes: Bytes | None = None
    # NVML clock event reasons, a bit mask
    throttle_bits: int | None = None


class Doctor(Record, frozen=True, kw_only=True):
    """What `phasewise doctor` found out about this machine."""

    schema: int = SCHEMA
    machine: Machine
    # A/A: the ratio of an arm to itself
    aa: Interval | None = None
    # smallest effect that a claim must clear here
    floor: float | None = None
    planted_slowdown: float = 0.0
    planted_found: int = 0
    planted_repeats: int = 0
    notes: tuple[str, ...] = ()
