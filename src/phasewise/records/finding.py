"""The ids of the findings catalogue; `because` has to be one of them."""

from __future__ import annotations

from enum import StrEnum


class FindingId(StrEnum):
    """What can hold a step back. The functions that find them are in `phasewise.analyse.findings`."""

    LAUNCH_GAPS = "launch-gaps"
    HOST_SYNC = "host-sync"
    SERIAL_LOOP = "serial-loop"
    COPY_IN_STEP = "copy-in-step"
    PAGEABLE_COPY = "pageable-copy"
    SMALL_KERNELS = "small-kernels"
    FUSIBLE_CHAIN = "fusible-chain"
    REPEATED_WORK = "repeated-work"
    MEMORY_BOUND = "memory-bound"
    EXCESS_TRAFFIC = "excess-traffic"
    MATMUL_IN_FP32 = "matmul-in-fp32"
    MISALIGNED_MATMUL = "misaligned-matmul"
    LOW_OCCUPANCY = "low-occupancy"
    UNDERFILLED_DEVICE = "underfilled-device"
    ALLOCATOR_CHURN = "allocator-churn"
    MEMORY_CAPACITY = "memory-capacity"
    OPTIMIZER_NOT_FUSED = "optimizer-not-fused"
    INPUT_BOUND = "input-bound"
    GRAPH_BREAKS = "graph-breaks"
    EXPOSED_COMMUNICATION = "exposed-communication"
    THROTTLED = "throttled"
    NEAR_THE_ROOF = "near-the-roof"
