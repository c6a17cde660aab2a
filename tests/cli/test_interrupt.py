"""A stage that is interrupted ends at once, with the tools that its threads started in groups of their own."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

# a stage whose two cases each run one tool after the other
STAGE = r"""
import os

import click
from phasewise import cli
from phasewise.profile.tools import run_tool
from phasewise.workers.side_by_side import run_side_by_side

def profile(case):
    for _ in range(3):
        os.write(1, f"{case}\n".encode())
        run_tool(["sleep", "60"], timeout_s=60)

cli.commands.add_command(click.Command("stage", callback=lambda: run_side_by_side(profile, ["solve", "train"], 2)))
cli.main(["stage"])
"""


def list_tools(pid):
    return [child for child in psutil.Process(pid).children() if child.name() == "sleep"]


def test_ctrl_c_does_not_wait_for_what_the_threads_of_a_stage_do():
    stage = subprocess.Popen([sys.executable, "-c", STAGE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert {stage.stdout.readline().strip() for _ in range(2)} == {"solve", "train"}
    until = time.monotonic() + 20
    while len(tools := list_tools(stage.pid)) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(tools) == 2 and all(os.getpgid(tool.pid) != os.getpgid(stage.pid) for tool in tools)
    stage.send_signal(signal.SIGINT)
    printed, errors = stage.communicate(timeout=20)
    assert (stage.returncode, printed, errors.strip()) == (130, "", "phasewise: interrupted")
    _, living = psutil.wait_procs(tools, timeout=5)
    assert not living


def test_tools_end_with_a_stage_that_is_killed():
    stage = subprocess.Popen([sys.executable, "-c", STAGE], stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 20
    while len(tools := list_tools(stage.pid)) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(tools) == 2
    stage.kill()
    stage.communicate()
    _, living = psutil.wait_procs(tools, timeout=5)
    assert not living


@pytest.mark.parametrize("at_once", [1, 3])
def test_results_are_in_the_order_of_the_items(at_once):
    from phasewise.workers.side_by_side import run_side_by_side

    def wait(seconds):
        time.sleep(seconds)
        return seconds

    assert run_side_by_side(wait, [0.2, 0.0, 0.1], at_once) == (0.2, 0.0, 0.1)
