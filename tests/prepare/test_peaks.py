"""The ceilings of a machine are in an order that physics gives."""

import pytest
import torch

from phasewise.prepare.peaks import measure_peaks, take_best
from phasewise.records.machine import Peaks


@pytest.mark.gpu
def test_what_stays_in_the_cache_is_copied_faster_and_a_node_of_a_graph_costs_less_than_a_launch():
    peaks = measure_peaks(torch.device("cuda"))
    assert peaks.cached_copy_bytes_per_s > peaks.copy_bytes_per_s
    assert peaks.graph_node_s < peaks.launch_s


def test_the_best_of_several_passes_counts():
    quiet = Peaks(
        copy_bytes_per_s=3e12, cached_copy_bytes_per_s=6e12, matmul_flops_per_s={"float32": 5e13}, launch_s=2e-6
    )
    disturbed = Peaks(
        copy_bytes_per_s=1e12, matmul_flops_per_s={"float32": 6e13, "tf32": 3e14}, launch_s=4e-6, sync_s=1e-5
    )
    best = take_best([disturbed, quiet])
    assert (best.copy_bytes_per_s, best.cached_copy_bytes_per_s) == (3e12, 6e12)
    assert best.matmul_flops_per_s == {"float32": 6e13, "tf32": 3e14}
    assert (best.launch_s, best.graph_node_s, best.sync_s) == (2e-6, None, 1e-5)
