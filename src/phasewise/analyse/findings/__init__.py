"""The catalogue of findings: one function each, in the order in which they may claim seconds of the step.

`docs/findings.md` is made from the docstrings of these functions.
"""

from __future__ import annotations

from phasewise.analyse.evidence import Find
from phasewise.analyse.findings.copies import find_copy_in_step, find_pageable_copy
from phasewise.analyse.findings.device import find_memory_capacity, find_optimizer_not_fused, find_throttled
from phasewise.analyse.findings.host import (
    find_exposed_communication,
    find_host_sync,
    find_input_bound,
    find_launch_gaps,
)
from phasewise.analyse.findings.kernels import (
    find_fusible_chain,
    find_low_occupancy,
    find_small_kernels,
    find_underfilled_device,
)
from phasewise.analyse.findings.loops import (
    find_allocator_churn,
    find_graph_breaks,
    find_repeated_work,
    find_serial_loop,
)
from phasewise.analyse.findings.matmul import find_matmul_in_fp32, find_misaligned_matmul
from phasewise.analyse.findings.traffic import find_excess_traffic, find_memory_bound, find_near_the_roof
from phasewise.records.finding import FindingId

# waits before gaps before kernels: what the host causes is not the kernels' fault; a narrow cause before a broad one
CATALOGUE: tuple[tuple[FindingId, Find], ...] = (
    (FindingId.MEMORY_CAPACITY, find_memory_capacity),
    (FindingId.INPUT_BOUND, find_input_bound),
    (FindingId.EXPOSED_COMMUNICATION, find_exposed_communication),
    (FindingId.PAGEABLE_COPY, find_pageable_copy),
    (FindingId.COPY_IN_STEP, find_copy_in_step),
    (FindingId.HOST_SYNC, find_host_sync),
    (FindingId.GRAPH_BREAKS, find_graph_breaks),
    (FindingId.ALLOCATOR_CHURN, find_allocator_churn),
    (FindingId.SERIAL_LOOP, find_serial_loop),
    (FindingId.OPTIMIZER_NOT_FUSED, find_optimizer_not_fused),
    (FindingId.LAUNCH_GAPS, find_launch_gaps),
    (FindingId.REPEATED_WORK, find_repeated_work),
    (FindingId.MATMUL_IN_FP32, find_matmul_in_fp32),
    (FindingId.MISALIGNED_MATMUL, find_misaligned_matmul),
    (FindingId.FUSIBLE_CHAIN, find_fusible_chain),
    (FindingId.SMALL_KERNELS, find_small_kernels),
    (FindingId.UNDERFILLED_DEVICE, find_underfilled_device),
    (FindingId.LOW_OCCUPANCY, find_low_occupancy),
    (FindingId.EXCESS_TRAFFIC, find_excess_traffic),
    (FindingId.MEMORY_BOUND, find_memory_bound),
    (FindingId.THROTTLED, find_throttled),
    (FindingId.NEAR_THE_ROOF, find_near_the_roof),
)
