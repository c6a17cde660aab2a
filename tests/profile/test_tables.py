import pytest
from traces import call, copy, graph, kernel, make_trace, memory, operator, region, sync

from phasewise.profile.counts import count_events, hides_kernels
from phasewise.profile.kernels import ROWS, tabulate_kernels
from phasewise.profile.operators import tabulate_operators
from phasewise.profile.timeline import choose_frame, frame_steps, summarise
from phasewise.profile.trace import parse_trace
from phasewise.records.profile import CLOSURE


def read(*groups, steps=((0, 100),)):
    trace = parse_trace(make_trace(*groups, steps=steps))
    return trace, frame_steps(trace)


def operators(trace, frames):
    return tabulate_operators(trace, [frame.step for frame in frames])


def test_kernels_are_summed_per_step_with_their_launch_geometry():
    trace, frames = read(
        kernel("ampere_sgemm_128x64_tn", 10, 30, launched=1, grid=(4, 2, 1)), kernel("add_elementwise", 30, 35, launched=6),
        kernel("ampere_sgemm_128x64_tn", 110, 120, launched=101), copy("DtoH (Device -> Pageable)", 130, 134, launched=122),
        steps=[(0, 100), (100, 200)],
    )  # fmt: skip
    first, second, third = tabulate_kernels(trace, frames)
    assert (first.name, first.calls, first.category, first.dtype) == ("ampere_sgemm_128x64_tn", 1, "gemm", "float32")
    assert first.seconds == pytest.approx(15e-6)
    assert (first.grid, first.block, first.registers, first.occupancy) == ((4, 2, 1), (256, 1, 1), 32, 0.5)
    assert (second.calls, second.seconds) == (0.5, pytest.approx(2.5e-6))
    assert (third.category, third.seconds) == ("copy", pytest.approx(2e-6))


def test_kernels_beyond_the_table_are_summed_so_that_nothing_is_lost():
    groups = [kernel(f"k{index}", index, index + 1, launched=index) for index in range(ROWS + 20)]
    trace, frames = read(*groups)
    table = tabulate_kernels(trace, frames)
    assert len(table) == ROWS
    assert sum(row.calls for row in table) == ROWS + 20
    assert sum(row.seconds for row in table) == pytest.approx((ROWS + 20) * 1e-6)


def test_on_a_cpu_the_table_sums_to_kernel_and_copy_time():
    trace, frames = read(
        operator("aten::linear", 0, 40),
        operator("aten::addmm", 8, 38, dims=[[4], [4, 4]]),
        operator("aten::copy_", 50, 60),
    )
    table = tabulate_kernels(trace, frames)
    parts = summarise(choose_frame(frames))
    assert sum(row.seconds for row in table) == pytest.approx(parts.kernel_s + parts.copy_s)
    assert [(row.name, row.category, row.dtype) for row in table] == [
        ("aten::addmm", "gemm", "float32"),
        ("aten::copy_", "copy", ""),
    ]


def test_operators_have_own_time_and_the_device_time_of_what_they_launched_themselves():
    trace, frames = read(
        operator("aten::linear", 0, 20, dims=[[8, 4], [16, 4]]),
        operator("aten::addmm", 2, 18, dims=[[16], [8, 4], [4, 16]]),
        kernel("gemm", 30, 70, launched=10),
    )  # fmt: skip
    addmm, linear = operators(trace, frames)
    assert (addmm.name, addmm.shapes) == ("aten::addmm", "float32[16] float32[8,4] float32[4,16]")
    assert (addmm.device_s, addmm.self_s) == (pytest.approx(40e-6), pytest.approx(16e-6))
    assert addmm.flops == 2 * 8 * 4 * 16
    assert (linear.device_s, linear.self_s) == (0, pytest.approx(4e-6))


def test_equal_operators_of_one_step_keep_their_own_device_time():
    trace, frames = read(
        operator("aten::add", 0, 10), kernel("a", 20, 30, launched=2),
        operator("aten::add", 10, 20), kernel("a", 30, 45, launched=12),
    )  # fmt: skip
    (row,) = operators(trace, frames)
    assert (row.calls, row.device_s) == (2, pytest.approx(25e-6))


def test_products_are_counted():
    trace, frames = read(
        operator("aten::bmm", 0, 10, dims=[[3, 8, 4], [3, 4, 5]]),
        operator("aten::mv", 20, 30, dims=[[8, 4], [4]]),
        operator("aten::exp", 30, 40, dims=[[8, 4]]),
    )  # fmt: skip
    flops = {row.name: row.flops for row in operators(trace, frames)}
    assert flops == {"aten::bmm": 2 * 3 * 8 * 4 * 5, "aten::mv": 2 * 8 * 4, "aten::exp": None}


def test_what_runs_inside_of_attention_is_counted_once():
    shapes = [[2, 3, 7, 16], [2, 3, 9, 16], [2, 3, 9, 16]]
    trace, frames = read(
        operator("aten::scaled_dot_product_attention", 0, 30, dims=shapes),
        operator("aten::_scaled_dot_product_flash_attention_for_cpu", 2, 28, dims=shapes),
        operator("aten::bmm", 5, 20, dims=[[6, 7, 16], [6, 16, 9]]),
    )  # fmt: skip
    flops = {row.name: row.flops for row in operators(trace, frames)}
    assert flops == {
        "aten::scaled_dot_product_attention": None, "aten::bmm": None,
        "aten::_scaled_dot_product_flash_attention_for_cpu": 4 * 2 * 3 * 7 * 9 * 16,
    }  # fmt: skip


def test_launches_waits_copies_and_allocations_are_counted_per_step():
    trace, frames = read(
        kernel("a", 10, 12, launched=1), kernel("b", 12, 14, launched=5, call="cuLaunchKernelEx"),
        graph(20, 25, ("c", 26, 28), ("d", 28, 30)), sync(30, 40), call("cudaDeviceSynchronize", 41, 42),
        copy("HtoD (Pageable -> Device)", 45, 50, size=1000, launched=43),
        copy("HtoD (Pinned -> Device)", 50, 55, size=200, launched=48),
        copy("DtoH (Device -> Pageable)", 60, 62, size=8, launched=58), copy("DtoD (Device -> Device)", 65, 66, launched=63),
        call("cudaMalloc", 70, 80),
        steps=[(0, 50), (50, 100)],
    )  # fmt: skip
    count = count_events(trace, frames, {"graph_breaks": 2.0})
    assert (count.launches, count.graph_launches, count.synchronisations) == (1, 0.5, 1)
    assert (count.host_to_device, count.device_to_host, count.pageable_copies, count.copied_bytes) == (1, 0.5, 1, 604)
    assert (count.allocations, count.graph_breaks) == (0.5, 2)


def test_on_a_cpu_every_block_that_is_handed_out_is_an_allocation():
    trace, frames = read(operator("aten::mm", 0, 9), memory(1, 64, 64), memory(2, -64, 0), memory(3, 32, 32))
    assert count_events(trace, frames).allocations == 2


def test_a_replay_whose_kernels_are_seen_hides_nothing():
    assert not hides_kernels(*read(graph(0, 10, ("gemm", 12, 50), ("add", 50, 60))))


def test_one_replay_without_kernels_is_enough_to_hide_some():
    assert hides_kernels(*read(graph(0, 10, ("gemm", 12, 50)), graph(20, 30)))


def test_a_loop_is_found_with_its_heaviest_operator_and_its_time():
    groups = [operator("aten::empty", 0, 1)]
    for turn in range(7):
        start = 2 + 10 * turn
        groups += [operator("aten::mm", start, start + 6), operator("aten::add", start + 6, start + 8)]
    trace, frames = read(*groups)
    count = count_events(trace, frames)
    assert (count.serial_repeats, count.serial_period, count.serial_operator) == (7, 2, "aten::mm")
    assert count.serial_s == pytest.approx(68e-6)


def test_an_optimizer_that_goes_through_its_parameters_is_no_loop_but_what_it_calls_may_be_one():
    names = ("aten::mul_", "aten::add_") * 12
    turns = [operator(name, 10 + 2 * index, 12 + 2 * index) for index, name in enumerate(names)]
    optimizer = region("Optimizer.step#AdamW.step", 5, 90)
    assert count_events(*read(*turns, optimizer)).serial_repeats == 0
    assert count_events(*read(*turns, optimizer, region(CLOSURE, 8, 80))).serial_repeats == 12


def test_a_step_without_events_counts_nothing():
    count = count_events(*read())
    assert (count.launches, count.serial_repeats, count.serial_operator) == (0, 0, "")
