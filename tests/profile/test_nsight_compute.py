from pathlib import Path

import pytest

from phasewise.profile.nsight_compute import (
    choose_kernels,
    count_kernels,
    format_table,
    make_command,
    parse_table,
    pick_row,
)
from phasewise.profile.tools import Finished
from phasewise.records.profile import Kernel

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, x)"
# the raw page as ncu writes it: notices, header, units, rows; unit prefixes vary, thousands are grouped
TABLE = '''==PROF== Connected to process 42
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__bytes.sum","dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","launch__registers_per_thread","lts__t_sector_hit_rate.pct","sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active","sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active"
"","","","","","","","","","","","Mbyte","%","usecond","register/thread","%","%","%","%"
"0","42","python3.12","secret-host","void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_mul<float>, std::array<char *, (unsigned long)3>>(int, T2, T3)","1","7","(128, 1, 1)","(1024, 1, 1)","0","9.0","12.58","61.70","9.25","16","49.80","0","22.10","71.00"
"1","42","python3.12","secret-host","void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, std::array<char *, (unsigned long)3>>(int, T2, T3)","1","7","(128, 1, 1)","(1024, 1, 1)","0","9.0","1,012.58","71.70","9.50","18","33.30","0","25.10","72.50"
"2","42","python3.12","secret-host","void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, std::array<char *, (unsigned long)3>>(int, T2, T3)","1","7","(128, 1, 1)","(8, 1, 1)","0","9.0","0.1","1.70","2.00","18","33.30","0","5.10","12.50"
'''  # fmt: skip


def kernel(name=ADD, seconds=9.4e-6, grid=(1024, 1, 1), **changes):
    return Kernel(**{"name": name, "calls": 1, "seconds": seconds, "category": "elementwise", "grid": grid, **changes})


def test_units_of_the_second_line_become_si_and_grouped_digits_are_read():
    rows = parse_table(TABLE)
    assert len(rows) == 3
    assert rows[1]["gpu__time_duration.sum"] == pytest.approx(9.5e-6)
    assert rows[1]["dram__bytes.sum"] == pytest.approx(1012.58e6)
    assert rows[1]["dram__throughput.avg.pct_of_peak_sustained_elapsed"] == 71.7
    assert rows[1]["launch__registers_per_thread"] == 18


def test_base_units_are_read_as_they_are():
    table = (
        TABLE.replace('"Mbyte","%","usecond"', '"byte","%","ns"')
        .replace('"1,012.58"', '"1012580000"')
        .replace('"9.50"', '"9500"')
    )
    assert parse_table(table)[1]["gpu__time_duration.sum"] == pytest.approx(9.5e-6)
    assert parse_table(table)[1]["dram__bytes.sum"] == pytest.approx(1012.58e6)


def test_the_launch_of_the_same_template_and_grid_is_picked():
    counters = pick_row(parse_table(TABLE), kernel())
    assert (counters.launches, counters.registers, counters.kernel) == (1, 18, ADD)
    assert counters.duration_s == pytest.approx(9.5e-6)
    assert counters.dram_bytes == pytest.approx(1012.58e6)
    assert (counters.dram_percent, counters.sm_percent, counters.occupancy_percent) == (71.7, 25.1, 72.5)
    assert (counters.tensor_percent, counters.l2_hit_percent) == (0, 33.3)
    assert set(counters.metrics) >= {"dram__bytes.sum", "gpu__time_duration.sum"}


def test_where_no_template_fits_the_nearest_duration_is_picked():
    counters = pick_row(
        parse_table(TABLE), kernel("void my::vectorized_elementwise_kernel<1>()", seconds=2.1e-6, grid=(7, 7, 7))
    )
    assert counters.duration_s == pytest.approx(2e-6)


def test_a_table_without_rows_or_with_an_error_gives_nothing():
    assert parse_table("==ERROR== ERR_NVGPUCTRPERM") == []
    assert parse_table(TABLE.splitlines()[1]) == []
    assert pick_row([], kernel()) is None


def test_metrics_that_ncu_could_not_read_are_absent():
    table = TABLE.replace('"33.30"', '"n/a"').replace('"1,012.58"', '""')
    counters = pick_row(parse_table(table), kernel())
    assert counters.l2_hit_percent is None and counters.dram_bytes is None


def test_the_kept_table_names_no_host_and_no_process():
    text = format_table(parse_table(TABLE)).decode()
    assert "secret-host" not in text and "python3" not in text
    assert text.splitlines()[0].startswith("ID,Kernel Name,Block Size,Grid Size")
    assert len(text.splitlines()) == 4


def test_the_three_longest_kernels_are_chosen_and_no_copies_or_collectives():
    kernels = [
        kernel("Memcpy HtoD", 1.0, grid=()), kernel("ncclDevKernel_AllReduce", 0.9, category="communication"),
        kernel("a<1>(int)", 0.5), kernel("void ns::a<2>(int)", 0.6), kernel("b", 0.4), kernel("c", 0.3), kernel("d", 0.2),
    ]  # fmt: skip
    assert [item.name for item in choose_kernels(kernels)] == ["void ns::a<2>(int)", "a<1>(int)", "b"]


def test_the_command_names_the_functions_exactly_and_leaves_clocks_alone():
    command = make_command(Path("/opt/ncu"), ["python", "-m", "x"], ("f.g", "h"), Path("/tmp/log"))
    assert command[command.index("-k") + 1] == r"regex:^(f\.g|h)$"
    assert command[command.index("-c") + 1] == "48"
    assert command[command.index("--clock-control") + 1] == "none"
    assert command[-3:] == ["python", "-m", "x"]


@pytest.mark.parametrize(
    ("output", "words", "cured"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "administrators", True),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "LibraryNotLoaded", True),
        ("==ERROR== something new", "something new", False),
    ],
)
def test_a_refusal_is_a_reason_with_a_cure_and_no_exception(tmp_path, monkeypatch, output, words, cured):
    ncu = tmp_path / "ncu"
    ncu.write_text(f"#!/bin/sh\necho '{output}'\nexit 1\n")
    ncu.chmod(0o755)
    monkeypatch.setattr("phasewise.profile.nsight_compute.find_tool", lambda name: ncu)
    capture, counters = count_kernels(tmp_path / "plan", "one", tmp_path, [kernel()], tmp_path / "out.csv", {})
    assert counters == ()
    assert words in capture.skipped
    assert bool(capture.cure) is cured
    assert not (tmp_path / "out.csv").exists()


@pytest.fixture
def counting(tmp_path, monkeypatch):
    """An ncu that writes the table."""
    ncu = tmp_path / "ncu"
    (tmp_path / "table").write_text(TABLE)
    ncu.write_text(f'#!/bin/sh\nwhile [ "$1" != "--log-file" ]; do shift; done\ncp "{tmp_path}/table" "$2"\n')
    ncu.chmod(0o755)
    monkeypatch.setattr("phasewise.profile.nsight_compute.find_tool", lambda name: ncu)


def test_fewer_kernels_are_counted_where_it_is_asked_for_and_the_capture_says_so(tmp_path, counting):
    wanted = [kernel(), kernel(ADD.replace("add", "mul"))]
    capture, counters = count_kernels(tmp_path / "plan", "one", tmp_path, wanted, tmp_path / "out.csv", {}, most=1)
    assert len(counters) == 1
    assert capture.note == "of the longest kernel only, since the shape is a smaller one"


def test_what_did_not_end_is_not_begun_again_for_another_function(tmp_path, monkeypatch):
    begun = []

    def stop(command, **_):
        begun.append(command)
        return Finished(None, "ncu did not end within 300 s")

    monkeypatch.setattr("phasewise.profile.nsight_compute.find_tool", lambda name: tmp_path / "ncu")
    monkeypatch.setattr("phasewise.profile.nsight_compute.run_tool", stop)
    wanted = [kernel("one"), kernel("other")]
    capture, counters = count_kernels(tmp_path / "plan", "one", tmp_path, wanted, tmp_path / "out.csv", {})
    assert len(begun) == 1
    assert counters == () and "did not end within 300 s" in capture.skipped


def test_a_tool_that_works_leaves_counters_and_a_table(tmp_path, counting):
    # two templates of one function are counted in one run
    wanted = [kernel(), kernel(ADD.replace("add", "mul"))]
    capture, counters = count_kernels(tmp_path / "plan", "one", tmp_path, wanted, tmp_path / "out.csv", {})
    assert (capture.path, capture.bytes) == ("out.csv", (tmp_path / "out.csv").stat().st_size)
    assert [item.duration_s for item in counters] == [pytest.approx(9.5e-6), pytest.approx(9.25e-6)]
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 4


def test_all_functions_are_counted_in_one_run_and_what_had_no_launch_there_in_one_of_its_own(tmp_path, monkeypatch):
    """The first functions' launches may use up what is counted."""
    asked = []
    other = TABLE.replace("vectorized_elementwise_kernel", "rare_kernel")

    def answer(command, **_):
        asked.append(command[command.index("-k") + 1])
        Path(command[command.index("--log-file") + 1]).write_text(
            other if asked[-1] == "regex:^(rare_kernel)$" else TABLE
        )
        return Finished(0, "")

    monkeypatch.setattr("phasewise.profile.nsight_compute.find_tool", lambda name: tmp_path / "ncu")
    monkeypatch.setattr("phasewise.profile.nsight_compute.run_tool", answer)
    rare = kernel(ADD.replace("vectorized_elementwise_kernel", "rare_kernel"))
    _, counters = count_kernels(tmp_path / "plan", "one", tmp_path, [kernel(), rare], tmp_path / "out.csv", {})
    assert asked == ["regex:^(vectorized_elementwise_kernel|rare_kernel)$", "regex:^(rare_kernel)$"]
    assert [(item.kernel, item.launches) for item in counters] == [(ADD, 1), (rare.name, 1)]
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 7
