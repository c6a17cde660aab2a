"""The project of `phasewise init` goes through a Slurm cluster of one node, by the profile that ships; killed, it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from graph.projects import REPOSITORY, make_project, snakemake, surroundings, unreadable

pytestmark = [pytest.mark.slurm, pytest.mark.slow, pytest.mark.timeout(1800)]
TEMPLATE = REPOSITORY / "src/phasewise/cli/template.py"
LIMIT_S = 900
# as a user edits the lines of the profile: this cluster has no accounts, and a small node; without accounting `squeue` tells
OURS = (
    "--profile", str(REPOSITORY / "profiles/slurm"), "--slurm-no-account", "--slurm-status-command", "squeue",
    "--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1", "--cores", "2",
    "--set-threads", "validate=2", "profile=2", "--default-resources", "slurm_partition=gpu", "runtime=60", "mem_mb=2000",
)  # fmt: skip


@pytest.fixture
def project(cluster, tmp_path):
    return make_project(tmp_path / "project", {"sums": TEMPLATE}, profilers=["torch"], exporters=["torch-export"])


def start(project):
    return subprocess.Popen(
        [sys.executable, "-m", *snakemake(project.folder), *OURS],
        cwd=project.folder,
        env=surroundings(project.folder),
        stdout=(project.folder / "run.log").open("a"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def list_queued():
    return subprocess.run(["squeue", "-h", "-o", "%i"], capture_output=True, text=True, check=True).stdout.split()


def test_a_project_is_killed_and_resumed_and_every_job_runs_on_the_node(project):
    planned = project.jobs()
    first = start(project)
    gate = project.records("sums") / "00-baseline/validate.json"
    # the next one's says that the graph knows the baseline's to be done; its own job may be cut off yet
    deadline = time.monotonic() + LIMIT_S
    while not (project.records("sums") / "01-vectorised/validate.json").exists():
        assert first.poll() is None, (project.folder / "run.log").read_text()[-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    before = gate.read_bytes()
    # what was submitted goes on, or is cancelled as its owner would
    subprocess.run(["scancel", "--user", "root"], check=True)
    while list_queued():
        time.sleep(0.1)
    assert not unreadable(project.folder.rglob("*.json"))
    second = start(project)
    assert second.wait(LIMIT_S) == 0, (project.folder / "run.log").read_text()[-4000:]
    assert gate.read_bytes() == before
    # none was left out, and none is done twice
    assert not project.jobs()
    said = (project.folder / "run.log").read_text()
    assert said.count("has been submitted with SLURM jobid") >= len(planned)
    assert "--gpus" not in said
    # a comparison is a job of one process group: all of its arms are of one machine
    for variant in ("01-vectorised", "02-fused"):
        assert {arm["failure"] for arm in project.case("sums", variant, "measure", "rows")["arms"]} == {None}
    assert project.summary("sums")["phases"][0]["validation"] == "pass"
