"""The ceilings of a machine are in an order that physics gives."""

import pytest
import torch

from phasewise.prepare.peaks import measure_peaks


@pytest.mark.gpu
def test_what_stays_in_the_cache_is_copied_faster_and_a_node_of_a_graph_costs_less_than_a_launch():
    peaks = measure_peaks(torch.device("cuda"))
    assert peaks.cached_copy_bytes_per_s > peaks.copy_bytes_per_s
    assert peaks.graph_node_s < peaks.launch_s
