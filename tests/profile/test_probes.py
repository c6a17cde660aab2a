import pytest
import torch
from traces import copy, kernel, make_trace, operator

from phasewise.profile.probes import probe_chains, probe_optimizer, probe_pinning, probe_products, run_probes
from phasewise.profile.timeline import frame_steps
from phasewise.profile.trace import parse_trace
from phasewise.records.machine import Machine, Peaks
from phasewise.records.profile import Kernel, Operator

MACHINE = Machine(
    device="h200", kind="cuda", name="x", peaks=Peaks(copy_bytes_per_s=1e12, matmul_flops_per_s={}, graph_node_s=1e-6)
)


def chain(names, size=1 << 20):
    groups = []
    for index, name in enumerate(names):
        groups.append(operator(f"aten::op{index}", 10 * index, 10 * index + 8, dims=[[size]]))
        groups.append(kernel(name, 100 + 20 * index, 120 + 20 * index, launched=10 * index + 2))
    trace = parse_trace(make_trace(*groups, steps=[(0, 400)]))
    return probe_chains(trace, frame_steps(trace), MACHINE)


def test_a_chain_of_small_kernels_is_set_against_one_pass_at_the_copy_rate():
    (probe,) = chain(["add_elementwise", "mul_elementwise", "reduce_kernel", "gemm", "add_elementwise"])
    assert (probe.finding, probe.calls) == ("fusible-chain", 1)
    assert probe.now_s == pytest.approx(60e-6)
    # 4 MiB read and written once at 1 TB/s
    assert probe.then_s == pytest.approx(2 * (4 << 20) / 1e12)


def test_a_chain_is_never_predicted_to_be_slower_and_short_ones_are_none():
    assert chain(["add_elementwise", "mul_elementwise", "gemm"]) == []
    (probe,) = chain(["add_elementwise"] * 3, size=1 << 28)
    assert probe.then_s == probe.now_s


def pageable_frames(size):
    return frame_steps(parse_trace(make_trace(copy("HtoD (Pageable -> Device)", 0, 50, size=size))))


def test_pinned_copies_are_no_cause_for_a_probe():
    trace = parse_trace(make_trace(copy("HtoD (Pinned -> Device)", 0, 50), copy("DtoH (Device -> Pageable)", 50, 60)))
    assert probe_pinning(frame_steps(trace), torch.device("cuda")) == []


def test_without_a_gpu_nothing_is_probed():
    assert run_probes(parse_trace(make_trace()), [], [], [], MACHINE, torch.device("cpu")) == ()


@pytest.mark.gpu
def test_products_copies_and_optimizers_are_tried_on_the_gpu():
    device = torch.device("cuda")
    shapes = "float32[4096] float32[4096,4096] float32[4096,4096]"
    product = Operator(name="aten::addmm", calls=8, self_s=0, device_s=1.0, shapes=shapes)
    tf32, bfloat16 = probe_products([product], device)
    assert bfloat16.then_s < tf32.then_s < tf32.now_s
    (pinned,) = probe_pinning(pageable_frames(64 << 20), device)
    assert pinned.then_s < pinned.now_s
    kernels = [Kernel(name="void multi_tensor_apply_kernel<Adam>()", calls=1, seconds=1.0, category="elementwise")]
    (fused,) = probe_optimizer(kernels, device)
    assert 0 < fused.then_s < fused.now_s
