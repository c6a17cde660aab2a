"""What racecheck prints of shared memory accuses the program or nobody: excerpts of real output, and changes to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasewise.records.validate import Outcome
from phasewise.validate.sanitizer import DONE, judge_output

EXCERPTS = Path(__file__).parent / "racecheck"
# one lane group of 8 and one of 16, of H200s; the third is a kernel of cuDNN's attention
LOCKSTEP = (EXCERPTS / "lior-lockstep.txt").read_text()
TRAINING = (EXCERPTS / "spectral-training.txt").read_text()
ATTENTION = (EXCERPTS / "cudnn-attention.txt").read_text()
ONE = TRAINING.split("========= \n")[0] + "========= \n"
CUDNN = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0"
LAUNCHER = "__triton_launcher.cpython-312-x86_64-linux-gnu.so"
RAW = (
    "========= Error: Potential RAW hazard detected at __shared__ 0x4 in block (0,0,0) :\n"
    "=========     Write Thread (1,0,0) at sum_kernel(float *)+0xb0 in sums.cu:28\n"
    "=========     Read Thread (0,0,0) at sum_kernel(float *)+0xc0 in sums.cu:30\n"
    "=========     Current Value : 7\n"
    "=========     Saved host backtrace up to driver entry point at kernel launch time\n"
    "=========         Host Frame: sum_rows(at::Tensor) [0x1af0] in sums.so\n"
    "=========         Host Frame: cudnnBackendExecute [0x178365] in libcudnn_graph.so.9\n========= \n"
)


def judge(*reports, found=None, code=9, done=DONE):
    text = "".join(reports)
    printed = text.count("Potential ")
    errors = printed if found is None else found
    counts = f"{printed} hazards displayed ({errors} errors, 0 warnings)"
    return judge_output(
        "racecheck", code, f"========= COMPUTE-SANITIZER\n{text}{done}\n========= RACECHECK SUMMARY: {counts}\n"
    )


def replay(reports):
    """As a captured graph would show them, which torch launches through the runtime."""
    frame = (
        "         Host Frame: cudaGraphLaunch [0x5f1b] in libcudart.so.13\n"
        "=========         Host Frame: at::cuda::CUDAGraph::replay() [0xe1a2] in libtorch_cuda.so\n========= "
    )
    return "".join(
        f"{head}kernel launch time\n========={frame}\n"
        for head in (part.split("kernel launch time")[0] for part in reports.split("========= \n")[:-1])
    )


def test_hazards_inside_a_librarys_kernel_are_named_and_accuse_nobody():
    found = judge(ATTENTION)
    assert found.outcome is Outcome.PASS
    assert found.message == f"3 hazards inside {CUDNN}, a library's kernel (libcudnn_graph.so.9)"


@pytest.mark.parametrize(
    ("reports", "sentence"),
    [
        (LOCKSTEP, "5 hazards inside weigh_kernel at device_functions.py:116, where lanes of a warp"),
        (ONE, "1 hazards inside absorb_kernel at absorbance.py:38, where lanes of a warp"),
        (TRAINING, "6 hazards inside absorb_kernel at absorbance.py:38, where lanes of a warp"),
    ],
)
def test_halves_of_one_reduced_value_are_named_and_accuse_nobody(reports, sentence):
    found = judge(reports)
    assert found.outcome is Outcome.PASS
    assert sentence in found.message
    assert "triton-lang/triton#7264" in found.message


def test_all_kernels_stand_in_the_message():
    message = judge(ATTENTION, TRAINING, LOCKSTEP).message
    assert [name in message for name in (CUDNN, "absorb_kernel", "weigh_kernel")] == [True] * 3


@pytest.mark.parametrize("reports", [(ATTENTION, RAW), (RAW, ATTENTION, LOCKSTEP), (TRAINING, RAW, TRAINING)])
def test_a_race_beside_others_hazards_is_found(reports):
    found = judge(*reports)
    assert found.outcome is Outcome.FAIL
    assert found.message == (
        "racecheck found 1 hazards: RAW in sum_kernel(float *), launched by sums.so: Write Thread (1, 0, 0) at "
        "sum_kernel(float *)+0xb0 in sums.cu:28 and Read Thread (0, 0, 0) at sum_kernel(float *)+0xc0 in sums.cu:30"
    )


@pytest.mark.parametrize(
    "launcher", ["sums.so", "my_libcudnn.so", "libcudnn_graph.so.9.py:3", LAUNCHER, "my_libcudart.so.12"]
)
def test_a_kernel_that_only_calls_itself_cudnn_accuses(launcher):
    own = ATTENTION.replace("[0x91578] in libcudnn_graph.so.9", f"[0x91578] in {launcher}", 1)
    found = judge(own)
    assert found.outcome is Outcome.FAIL
    # one name for two kernels clears neither
    assert found.message.startswith(f"racecheck found 3 hazards: RAW in {CUDNN}, launched by {launcher}: ")


def test_a_report_of_another_form_accuses():
    for kind in ("Read Thread", "Potential RAW hazard detected at __shared__"):
        changed = ATTENTION.replace(kind, kind.replace("Read", "Some").replace("__shared__", "somewhere"))
        assert judge(changed).outcome is Outcome.FAIL


def swap(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    "reports",
    [
        # the reading side is not ordered
        swap(TRAINING, "WAW", "RAW"),
        swap(TRAINING, "WAW", "WAR"),
        TRAINING + RAW.replace("sum_kernel(float *)", "absorb_kernel").replace("sums.so", LAUNCHER),
        # two instructions
        swap(LOCKSTEP, "weigh_kernel+0x1d20", "weigh_kernel+0x1d10"),
        # lanes of a group that all differ: 83 and 84 are the middle of eight, 84 and 85 are not
        LOCKSTEP + LOCKSTEP.replace("Thread (84", "Thread (85").replace("Thread (83", "Thread (84"),
        # two warps
        ONE.replace("Thread (23", "Thread (31").replace("Thread (24", "Thread (32"),
        # not neighbours
        ONE.replace("Thread (24", "Thread (25"),
        # a block of two dimensions, where a number is no lane
        ONE.replace("Thread (24,0", "Thread (24,1"),
        # other values, not other roundings: a high byte
        swap(swap(LOCKSTEP, "0x450", "0x453"), "Current Value : 25, Incoming Value : 33", "Current Value : 25, Incoming Value : 64"),
        # no line of Python
        TRAINING.replace("absorbance.py:38", "absorbance.cu:38"),
        # not launched by Triton
        TRAINING.replace(LAUNCHER, "absorb.so"),
        # no value
        swap(TRAINING, "=========     Current Value : 80, Incoming Value : 81\n", ""),
        # no backtrace
        "\n".join(line for line in TRAINING.splitlines() if "Host Frame" not in line) + "\n",
    ],
)  # fmt: skip
def test_what_differs_from_one_reduced_value_accuses(reports):
    found = judge(reports)
    assert found.outcome is Outcome.FAIL
    assert found.message.startswith("racecheck found ")


def test_a_carry_into_a_high_byte_is_a_rounding():
    assert judge(swap(swap(LOCKSTEP, "0x475", "0x476"), "176, ", "174, ")).outcome is Outcome.PASS
    assert (
        judge(swap(swap(LOCKSTEP, "0x475", "0x476"), "176, Incoming Value : 175", "0, Incoming Value : 255")).outcome
        is Outcome.PASS
    )


@pytest.mark.parametrize("reports", [ATTENTION, TRAINING])
def test_a_replayed_graph_is_judged_as_its_kernels_outside_of_it(reports):
    assert judge(reports, replay(reports)).outcome is Outcome.PASS
    # nobody is known to have launched it
    assert judge(replay(reports)).outcome is Outcome.FAIL
    # another instruction of that kernel, and another kernel
    assert judge(reports, replay(reports).replace("+0x", "+0x9")).outcome is Outcome.PASS
    assert judge(reports, replay(reports).replace("kernel", "another")).outcome is Outcome.FAIL
    # two kernels of that name
    own = reports.replace("libcudnn_graph.so.9", "sums.so").replace(LAUNCHER, "sums.so")
    assert judge(reports, own, replay(reports)).outcome is Outcome.FAIL


def test_a_race_in_a_replayed_kernel_of_tritons_is_found():
    assert judge(TRAINING, replay(TRAINING).replace("WAW", "RAW")).outcome is Outcome.FAIL


def test_what_the_runtime_launches_is_of_who_called_it():
    through = RAW.replace(
        "Host Frame: sum_rows",
        "Host Frame: cudaLaunchKernel [0x8e] in libcudart.so.13\n=========         Host Frame: sum_rows",
    )
    assert "launched by sums.so" in judge(through).message
    assert judge(through.replace("sums.so", "libcublasLt.so.13")).outcome is Outcome.PASS


def test_the_hazard_that_decides_is_told_first():
    odd = swap(
        swap(LOCKSTEP, "0x450", "0x453"),
        "Current Value : 25, Incoming Value : 33",
        "Current Value : 25, Incoming Value : 64",
    )
    found = judge(LOCKSTEP, LOCKSTEP, odd)
    assert found.message.startswith("racecheck found 15 hazards: WAW in weigh_kernel")
    assert found.message.endswith(", 64 over 25 in byte 0x453")


def test_what_was_not_printed_is_not_passed():
    found = judge(ATTENTION, found=787)
    assert found.outcome is Outcome.SKIPPED
    assert found.message.startswith(f"784 of 787 hazards were not printed; 3 hazards inside {CUDNN}")
    found = judge(ATTENTION, RAW, found=787)
    assert found.outcome is Outcome.FAIL
    assert found.message.endswith("; 783 of 787 hazards were not printed")


def test_a_step_that_broke_off_is_not_passed():
    found = judge(ATTENTION, done="RuntimeError: the shape is unknown")
    assert found.outcome is Outcome.SKIPPED
    assert "the step did not run to its end under compute-sanitizer" in found.message
    assert found.message.endswith("RuntimeError: the shape is unknown")


def test_warnings_are_races_though_the_exit_status_is_0():
    warning = RAW.replace("Error: Potential", "Warning: (Warp Level Programming) Potential")
    assert judge(warning, code=0).outcome is Outcome.FAIL


@pytest.mark.parametrize("forged", [1, -1])
def test_a_count_that_is_not_that_of_the_reports_accuses(forged):
    text = f"========= COMPUTE-SANITIZER\n{ATTENTION}{DONE}\n"
    counts = f"{3 + forged} hazards displayed ({3 + forged} errors, 0 warnings)"
    found = judge_output("racecheck", 9, f"{text}========= RACECHECK SUMMARY: {counts}\n")
    assert found.outcome is Outcome.FAIL
    assert "of which 3 are hazards of two threads" in found.message


def test_lines_of_the_program_between_reports_change_nothing():
    assert judge("loss 3.2", ATTENTION, "loss 3.1\nloss 3.0", TRAINING).outcome is Outcome.PASS
