"""What compute-sanitizer says becomes a guard, and where it can't run that is said too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from phasewise.records.validate import Outcome
from phasewise.store import write
from phasewise.validate import sanitizer
from phasewise.validate.sanitizer import DONE, judge_output, run_sanitizer
from plans import make_plan

HERE = Path(__file__).parent
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
INVALID = (
    "========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 4 bytes\n"
    "=========     at _scan_kernel+0x1a0\n========= ERROR SUMMARY: 3 errors\n"
)
RACE = (
    "========= COMPUTE-SANITIZER\n========= Error: Race reported between Write access at _sum_kernel\n"
    "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"
)
API_ERROR = (
    '========= Program hit cudaErrorStreamCaptureUnsupported (error 900) due to "operation not permitted when stream is capturing" '
    "on CUDA API call to cudaMalloc.\n=========     Saved host backtrace up to driver entry point at error\n"
    "=========         Host Frame: cudaMalloc [0x5a0f3] in libcudart.so.12\n========= \n"
)
HANDLED = f"========= COMPUTE-SANITIZER\n{4 * API_ERROR}{DONE}\n========= ERROR SUMMARY: 4 errors\n"
# what the program prints may end in the middle of a line
INTERLEAVED = f"========= COMPUTE-SANITIZER\nloss 3.2{API_ERROR}{DONE}\n========= ERROR SUMMARY: 1 error\n"
BROKEN_OFF = (
    f"========= COMPUTE-SANITIZER\n{API_ERROR}RuntimeError: CUDA error: operation not permitted when stream is capturing\n"
    "========= Target application returned an error\n========= ERROR SUMMARY: 1 error\n"
)
RAISED = (
    "========= COMPUTE-SANITIZER\nRuntimeError: the shape is unknown\n"
    "========= Target application returned an error\n========= ERROR SUMMARY: 0 errors\n"
)
# that ended before it used the GPU
EARLY = (
    "========= COMPUTE-SANITIZER\nModuleNotFoundError: No module named 'sums'\n"
    "========= Error: Target application terminated before first instrumented API call\n"
    "========= Tracking kernels launched by child processes requires the --target-processes all option.\n"
)
# a wrong access makes every later call of the API fail
AFTERMATH = (
    "========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 16 bytes\n"
    "=========     at elementwise_add_float4(float *, float *, float *, int)+0xa0\n"
    "=========     Access to 0x403800010 is out of bounds\n========= \n"
    '========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to '
    "cudaDeviceSynchronize.\n========= Target application returned an error\n========= ERROR SUMMARY: 2 errors\n"
)
# with wrong accesses behind handled calls, some of them beyond the print limit
MIXED = (
    f"========= COMPUTE-SANITIZER\n{2 * API_ERROR}========= Invalid __shared__ write of size 4 bytes\n{DONE}\n"
    "========= ERROR SUMMARY: 9 errors\n========= ERROR SUMMARY: 6 errors were not printed. Use --print-limit option to adjust "
    "the number of printed errors\n"
)
UNPRINTED = (
    f"========= COMPUTE-SANITIZER\n{3 * API_ERROR}{DONE}\n========= ERROR SUMMARY: 5 errors\n"
    "========= ERROR SUMMARY: 2 errors were not printed. Use --print-limit option to adjust the number of printed errors\n"
)
REFUSED = "========= COMPUTE-SANITIZER\n========= Error: device not supported\n"


@pytest.mark.parametrize(
    ("code", "output", "outcome", "sentence"),
    [
        (0, CLEAN, Outcome.PASS, ""),
        (9, INVALID, Outcome.FAIL, "memcheck found 3 errors: Invalid __global__ write of size 4 bytes"),
        (9, RACE, Outcome.FAIL, "memcheck found 1 errors: Error: Race reported"),
        (1, REFUSED, Outcome.SKIPPED, "could not run (exit status 1): Error: device not supported"),
        (0, "", Outcome.SKIPPED, "it said nothing"),
        (
            9,
            HANDLED,
            Outcome.PASS,
            "4 refused CUDA calls, which the program handled: Program hit cudaErrorStreamCapture",
        ),
        (9, INTERLEAVED, Outcome.PASS, "1 refused CUDA calls"),
        (
            9,
            BROKEN_OFF,
            Outcome.SKIPPED,
            "the step did not run to its end under compute-sanitizer: Program hit cudaError",
        ),
        (9, AFTERMATH, Outcome.FAIL, "memcheck found 1 errors: Invalid __global__ read of size 16 bytes"),
        # a program may print such lines itself
        (9, AFTERMATH + API_ERROR, Outcome.FAIL, "Invalid __global__ read of size 16 bytes"),
        (9, MIXED, Outcome.FAIL, "memcheck found 7 errors: Invalid __shared__ write of size 4 bytes"),
        (9, UNPRINTED, Outcome.SKIPPED, "2 errors were not printed, behind 3 refused CUDA calls"),
        (9, "========= COMPUTE-SANITIZER\n", Outcome.FAIL, "memcheck found errors"),
        (
            1,
            RAISED,
            Outcome.SKIPPED,
            "the step did not run to its end under compute-sanitizer (exit status 1): RuntimeError: the",
        ),
        (
            255,
            EARLY,
            Outcome.SKIPPED,
            "under compute-sanitizer (exit status 255): ModuleNotFoundError: No module named 'sums'",
        ),
    ],
)
def test_exit_status_and_output_become_a_guard(code, output, outcome, sentence):
    found = judge_output("memcheck", code, output)
    assert (found.guard, found.outcome) == ("sanitizer-memcheck", outcome)
    assert sentence in found.message


def test_a_race_is_one_beside_refused_calls_too():
    output = RACE.replace("========= RACECHECK", API_ERROR + DONE + "\n========= RACECHECK")
    assert judge_output("racecheck", 9, output).outcome is Outcome.FAIL


def plan_of():
    return make_plan("gated.py", HERE, cases=("product",))


def test_an_absent_tool_is_a_skip_with_its_cure(monkeypatch):
    monkeypatch.setattr(sanitizer, "find_tool", lambda name: None)
    guards = run_sanitizer(plan_of(), "product", HERE)
    assert [guard.outcome for guard in guards] == [Outcome.SKIPPED] * 2
    assert "install the CUDA toolkit" in guards[0].message


def test_a_tool_is_run_on_one_step_of_the_variant(monkeypatch, tmp_path):
    tool = tmp_path / "compute-sanitizer"
    told = f'printf "%s\\n" "$@" "caching ${{PYTORCH_NO_CUDA_MEMORY_CACHING-on}}" > {tmp_path}/"$2"'
    tool.write_text(f"#!/bin/sh\n{told}\nprintf '{CLEAN}'\n".replace("\n=", "\\n="))
    tool.chmod(0o755)
    monkeypatch.setattr(sanitizer, "find_tool", lambda name: tool)
    # as one who debugs may have set it
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
    guards = run_sanitizer(plan_of(), "product", HERE)
    assert [guard.outcome for guard in guards] == [Outcome.PASS] * 2, guards
    memory, races = ((tmp_path / name).read_text().split("\n") for name in ("memcheck", "racecheck"))
    assert "phasewise.validate.sanitized" in memory
    assert "phasewise.validate.sanitized" in races
    # shared memory is no allocator's, and a graph is captured only with it
    assert ("caching 1" in memory, "caching on" in races) == (True, True)
    # hazards alone tell by whom a kernel was launched
    assert races[races.index("--racecheck-report") + 1] == "hazard"
    assert int(races[races.index("--print-limit") + 1]) > 787


def test_a_tool_that_hangs_is_given_up_on(monkeypatch, tmp_path):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    tool.chmod(0o755)
    monkeypatch.setattr(sanitizer, "find_tool", lambda name: tool)
    monkeypatch.setattr(sanitizer, "TIMEOUT_S", 0.1)
    assert "was not done after 0.1 s" in run_sanitizer(plan_of(), "product", HERE)[0].message


def test_the_watched_step_runs_and_says_so(tmp_path):
    file = tmp_path / "plan.json"
    write(plan_of(), file)
    command = [sys.executable, "-m", "phasewise.validate.sanitized", str(file), "product", str(HERE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, DONE in done.stdout) == (0, True), done.stderr
    done = subprocess.run([*command[:-2], "nowhere", str(HERE)], capture_output=True, text=True, check=False)
    assert (done.returncode != 0, DONE in done.stdout) == (True, False)
