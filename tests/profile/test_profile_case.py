"""A real capture on the CPU, read to the end."""

import gzip
import json
import re
import socket
from contextlib import contextmanager

import pytest
import torch
from toy import toy_machine, toy_plan, write_toy

from phasewise.profile.capture import open_profiled
from phasewise.profile.case import profile_case, switch_graphs_off
from phasewise.profile.opinion import ask_second_opinion
from phasewise.profile.timeline import frame_steps, summarise
from phasewise.profile.trace import decode_trace, parse_trace
from phasewise.records.plan import Kind, PlannedCase
from phasewise.records.verdict import Reason

PARTS = ("kernel_s", "launch_gap_s", "sync_wait_s", "copy_s", "communication_s", "input_s", "host_s")


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captured")
    write_toy(folder)
    rest = {"root": folder, "captures": folder / "captures", "machine": toy_machine()}
    return folder, profile_case(toy_plan(folder), "one", **rest)


def trace_path(folder):
    return folder / "captures" / "one" / "00-baseline.1.pt.trace.json.gz"


def test_the_breakdown_of_a_real_step_sums_to_its_wall_time(captured):
    _, found = captured
    assert found.steps == 5
    assert sum(getattr(found.breakdown, name) for name in PARTS) == pytest.approx(found.breakdown.wall_s, rel=1e-12)
    assert found.breakdown.kernel_s > 0 and found.breakdown.host_s > 0
    assert found.breakdown.launch_gap_s == found.breakdown.sync_wait_s == 0
    assert found.overhead > 0


def test_products_loops_and_repeated_work_of_a_real_step_are_seen(captured):
    _, found = captured
    product = next(row for row in found.operators if row.name == "aten::mm")
    assert (product.calls, product.shapes, product.flops) == (6, "float32[48,48] float32[48,48]", 6 * 2 * 48**3)
    assert {row.category for row in found.kernels} >= {"gemm", "elementwise", "reduction"}
    assert found.count.serial_repeats == 6
    # exp of the same weights, six times after the first
    assert (found.count.repeated_calls, found.count.repeated_operator) == (6, "aten::exp")
    assert found.count.repeated_s > 0


def test_regions_of_the_workload_and_of_placing_are_found(captured):
    _, found = captured
    regions = {region.name: region for region in found.regions}
    assert set(regions) == {"layers", "place"}
    assert regions["layers"].calls_per_step == 1
    assert 0.2 < regions["layers"].share < 1


def test_the_capture_is_where_tensorboard_looks_and_names_no_machine(captured):
    folder, found = captured
    assert found.captures[0].path == "captures/one/00-baseline.1.pt.trace.json.gz"
    text = gzip.decompress(trace_path(folder).read_bytes()).decode()
    assert found.captures[0].bytes == trace_path(folder).stat().st_size < 8 << 20
    assert not re.search(rf"(?<!\w){re.escape(socket.gethostname())}(?!\w)", text)
    assert str(folder) not in text and "host_name" not in json.loads(text)


def test_torch_tb_profiler_reads_the_file_and_agrees(captured):
    pytest.importorskip("torch_tb_profiler")
    from torch_tb_profiler.consts import WORKER_PATTERN

    folder, found = captured
    match = WORKER_PATTERN.match(trace_path(folder).name)
    assert match and match.group(1) == "00-baseline"
    plain = decode_trace(trace_path(folder).read_bytes())
    trace = parse_trace(plain)
    frames = frame_steps(trace)
    opinion = ask_second_opinion(plain, trace, frames)
    assert opinion.available, opinion.reason
    assert opinion == found.second_opinion
    assert opinion.disagreement == 0
    # it knows only time inside operators, which holds what we call kernel and copy
    parts = [summarise(frame) for frame in frames]
    assert opinion.parts["CpuOp"] >= 0.99 * sum(part.kernel_s + part.copy_s for part in parts) / len(parts)
    assert opinion.parts["Total"] == pytest.approx(sum(part.wall_s for part in parts) / len(parts), rel=0.2)


def test_memory_of_a_cpu_step_comes_from_the_trace(captured):
    _, found = captured
    assert found.memory.peak_bytes >= 48 * 48 * 4
    assert 0 < len(found.memory.timeline) <= 200
    assert found.memory.largest[0][1] == 48 * 48 * 4
    assert found.memory.allocations_per_step == found.count.allocations > 6


def test_tools_that_need_a_gpu_say_so_on_a_cpu(captured):
    _, found = captured
    assert {capture.tool: capture.skipped for capture in found.captures}["nvml"] == "no NVIDIA GPU"


def test_resident_inputs_are_placed_outside_the_step_and_hoisting_leaves_no_rework(tmp_path):
    write_toy(tmp_path)
    plan = toy_plan(tmp_path, inputs="resident", profilers=("torch",), switches={"hoist": True})
    found = profile_case(plan, "one", root=tmp_path, captures=tmp_path / "captures", machine=toy_machine())
    assert [region.name for region in found.regions] == ["layers"]
    assert found.count.repeated_calls == 0
    assert found.memory.peak_bytes is None


def test_a_baseline_that_is_measured_at_smaller_shapes_is_profiled_at_the_first(tmp_path):
    write_toy(tmp_path)
    case = PlannedCase(case="one", shape={"width": 4000}, switches={}, baseline_at=({"width": 8}, {"width": 16}))
    plan = toy_plan(tmp_path, kind=Kind.BASELINE, cases=(case,), profilers=("torch",))
    found = profile_case(plan, "one", root=tmp_path, captures=tmp_path / "captures", machine=toy_machine())
    assert found.facts["profiled_at"] == "Shape(width=8)"
    assert any(row.shapes == "float32[8,8] float32[8,8]" for row in found.operators)


def test_a_step_too_long_for_a_trace_is_refused_with_the_cure(tmp_path, monkeypatch):
    write_toy(tmp_path)
    monkeypatch.setattr("phasewise.profile.capture.SLOW_S", 0.0)
    monkeypatch.setattr("phasewise.profile.capture.MOST_OPERATORS", 10)
    found = profile_case(
        toy_plan(tmp_path), "one", root=tmp_path, captures=tmp_path / "captures", machine=toy_machine()
    )
    assert found.failure.reason is Reason.OVER_BUDGET
    assert "baseline_at" in found.failure.message


def test_a_trace_is_written_while_other_cases_may_have_the_device(tmp_path, monkeypatch):
    write_toy(tmp_path)
    held, seen = [], []
    write = torch.profiler.profile.export_chrome_trace

    @contextmanager
    def lock(device):
        held.append(device)
        yield
        held.remove(device)

    def look(self, path):
        seen.append(list(held))
        return write(self, path)

    def build(*arguments, **named):
        seen.append(list(held))
        return open_profiled(*arguments, **named)

    monkeypatch.setattr("phasewise.profile.case.lock_captures", lock)
    monkeypatch.setattr("phasewise.profile.case.open_profiled", build)
    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", look)
    rest = {"root": tmp_path, "captures": tmp_path / "captures", "machine": toy_machine()}
    profile_case(toy_plan(tmp_path, profilers=("torch",)), "one", **rest)
    assert seen == [["cpu"], []] and held == []


def test_graphs_are_switched_off_and_nothing_else():
    case = PlannedCase(
        case="one",
        shape={},
        switches={"cuda_graph": True, "tf32": True, "graph": True, "photograph": True, "graphs": 3},
    )
    assert switch_graphs_off(case) == {
        "cuda_graph": False,
        "tf32": True,
        "graph": False,
        "photograph": True,
        "graphs": 3,
    }
    assert switch_graphs_off(PlannedCase(case="one", shape={}, switches={"graph": False})) is None


def test_where_replays_hide_kernels_the_step_without_its_graphs_is_read_or_findings_abstain(tmp_path, monkeypatch):
    write_toy(tmp_path)
    monkeypatch.setattr("phasewise.profile.case.hides_kernels", lambda trace, frames: True)
    rest = {"root": tmp_path, "captures": tmp_path / "captures", "machine": toy_machine()}
    found = profile_case(toy_plan(tmp_path, profilers=("torch",), switches={"graph": True}), "one", **rest)
    assert found.attributed_by == "ungraphed"
    assert any(row.name == "aten::mm" for row in found.kernels)
    assert profile_case(toy_plan(tmp_path, profilers=("torch",)), "one", **rest).attributed_by == "none"
