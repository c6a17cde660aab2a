"""The workflow's own rules: style, profiles, and the limit that keeps measurements apart."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from graph.projects import CONTRACT, REPOSITORY, list_jobs, make_project, put_on_record

# two jobs that ask for the GPU and for one core each, beside the graph's own rules
TWO_JOBS = """
include: "{repository}/Snakefile"


rule both:
    default_target: True
    input:
        "one.json",
        "two.json",


rule hold:
    output:
        "{{name}}.json",
    wildcard_constraints:
        name="one|two",
    resources:
        turn=1,
    shell:
        '''{python} -c "import json, time; a = time.time(); time.sleep(0.5); print(json.dumps([a, time.time()]))" > {{output}}'''
"""


# a job of several cores, which writes down the threads that it has
THREADED = """
include: "{repository}/Snakefile"


rule tell:
    output:
        "threads.txt",
    threads: 2
    shell:
        "echo $OMP_NUM_THREADS $MKL_NUM_THREADS $OPENBLAS_NUM_THREADS $(command -v python) > {{output}}"
"""


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """A project that was never run: dry runs read it and write plans only."""
    return make_project(tmp_path_factory.mktemp("rules") / "project", {"layout": CONTRACT / "layout.py"})


def test_the_workflow_is_clean_to_its_linter(planned):
    done = planned.run("--lint", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "in a good condition" in done.stdout + done.stderr


def test_the_rules_are_formatted(planned):
    done = planned.call(
        "snakefmt", "--check", str(REPOSITORY / "Snakefile"), str(REPOSITORY / "workflow/rules"), check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_job_has_the_python_and_the_threads_of_the_run_and_not_one_for_each_of_its_cores(planned, tmp_path, threads):
    """What is timed would have others than what its gate judged."""
    (tmp_path / "Snakefile").write_text(THREADED.format(repository=REPOSITORY))
    told = planned.folder / "threads.txt"
    told.unlink(missing_ok=True)
    words = ["snakemake", "--snakefile", str(tmp_path / "Snakefile"), "--cores", "2", "--nolock", "threads.txt"]
    # called by its path, as `make report` does: nothing of this environment is on the PATH
    planned.call(*words, OMP_NUM_THREADS=threads, PATH=os.defpath)
    assert told.read_text().split() == [*[threads] * 3, str(Path(sys.executable).parent / "python")]


@pytest.mark.parametrize(
    "cores", [(), ("--cores", "2"), ("--cores", "all")], ids=lambda words: "-".join(words) or "bare"
)
def test_it_plans_the_whole_graph_however_it_is_called(planned, cores):
    done = planned.run("-n", *cores)
    assert f"workflow specific profile {REPOSITORY / 'profiles/default'}" in done.stderr
    jobs = list_jobs(done.stdout)
    assert {"machine", "prepare", "validate 00-baseline", "measure 01-columns", "index"} <= jobs
    assert {"headline points", "control points"} <= jobs


def test_the_profile_of_a_gpu_box_plans_the_same_jobs(planned):
    assert planned.jobs("--profile", str(REPOSITORY / "profiles/gpu")) == planned.jobs()


def test_a_login_node_plans_for_the_machine_on_record_that_it_names(tmp_path):
    project = make_project(tmp_path / "project", {"layout": CONTRACT / "layout.py"}, size="tiny")
    put_on_record(project, "h200")
    profile = yaml.safe_load((REPOSITORY / "profiles/slurm/profile.yaml").read_text())
    # the cluster's executor is a package of its own; a dry one stands in for it
    assert profile.pop("executor") == "slurm"
    (tmp_path / "profile.yaml").write_text(yaml.safe_dump(profile))
    done = project.run("--executor", "dryrun", "--profile", str(tmp_path), "--cores", "16", PHASEWISE_MACHINE="h200")
    assert "slurm_partition=gpu" in done.stderr
    assert "profiles/records/layout/tiny-h200/01-columns/measure.json" in done.stderr
    assert "tiny-cpu" not in done.stderr
    # a job on a node of its own asks for a GPU and cores there
    assert all(
        "gpu=1" in block and "threads: 16" in block
        for block in done.stderr.split("\nrule ")
        if block.startswith(("validate", "profile"))
    )


def test_beside_a_gpu_gates_share_it_and_come_before_what_is_timed(tmp_path):
    project = make_project(tmp_path / "project", {"layout": CONTRACT / "layout.py"}, size="tiny")
    put_on_record(project, "h200")
    done = project.run("-n", "--cores", "16", PHASEWISE_MACHINE="h200")
    blocks = done.stdout.split("\nrule ")
    gates = [block for block in blocks if block.startswith("validate")]
    assert len(gates) >= 2
    assert all("threads: 2" in block and "turn=" not in block for block in gates)
    timed = [block for block in blocks if block.startswith(("measure", "headline", "control"))]
    assert timed and all("threads: 16" in block and "turn=1" in block for block in timed)
    # three side by side, and none beside what is timed
    profiles = [block for block in blocks if block.startswith("profile")]
    assert profiles and all("threads: 5" in block and "turn=1" not in block for block in profiles)
    # on a node of its own each needs it
    assert all("gpu=1" in block for block in (*gates, *timed, *profiles))
    urgency = {block.split("logs/")[1].split()[0]: find_priority(block) for block in (*gates, *timed, *profiles)}
    assert min(map(find_priority, gates)) > max(map(find_priority, (*timed, *profiles)))
    # the next of a chain waits for a second's work
    analyses = [block for block in blocks if block.startswith("analyse")]
    assert analyses and min(map(find_priority, analyses)) > max(map(find_priority, gates))
    # what others stand on goes before what nothing waits for
    for stage in ("validate", "measure", "profile"):
        of = {Path(log).stem: number for log, number in urgency.items() if log.startswith(stage)}
        assert of["00-baseline"] > of["01-columns"], stage


def find_priority(block):
    found = re.search(r"priority: (\d+)", block)
    return int(found[1]) if found else 0


def test_in_a_pool_what_is_timed_has_one_slot_and_the_first_run_goes_first(tmp_path):
    workloads = {name: CONTRACT / f"{name}.py" for name in ("group", "layout")}
    project = make_project(tmp_path / "project", workloads, size="tiny")
    put_on_record(project, "h200")
    done = project.run("-n", "--cores", "16", "--resources", "turn=4", "--", PHASEWISE_MACHINE="h200")
    blocks = done.stdout.split("\nrule ")
    timed = [block for block in blocks if block.startswith(("measure", "headline", "control", "export"))]
    assert timed and all("threads: 4" in block and "turn=1" in block for block in timed)
    profiles = [block for block in blocks if block.startswith("profile")]
    assert profiles and not any("threads:" in block or "turn=1" in block for block in profiles)
    first, second = ([find_priority(block) for block in timed if f"/{name}/" in block] for name in ("group", "layout"))
    assert min(first) > max(second)


def test_a_machine_that_is_not_on_record_is_refused(tmp_path):
    project = make_project(tmp_path / "project", {"layout": CONTRACT / "layout.py"})
    for name in ("h200", "../up"):
        done = project.call("phasewise", "plan", check=False, PHASEWISE_MACHINE=name)
        assert done.returncode == 2 and f"PHASEWISE_MACHINE: {name!r} is not on record" in done.stderr
    done = project.call("phasewise", "prepare", "--machine", "h200", check=False)
    assert done.returncode == 2 and "this machine is cpu" in done.stderr


@pytest.mark.parametrize("words", [(), ("--resources", "mem_mb=1000")], ids=["plain", "other-resources"])
def test_two_jobs_never_have_a_turn_at_once_even_without_the_profile(tmp_path, words):
    project = make_project(tmp_path / "project", {"layout": CONTRACT / "layout.py"})
    snakefile = project.folder / "Snakefile"
    snakefile.write_text(TWO_JOBS.format(repository=REPOSITORY, python=sys.executable))
    project.call("snakemake", "--cores", "3", "--nolock", *words)
    one, two = sorted(json.loads((project.folder / f"{name}.json").read_text()) for name in ("one", "two"))
    assert one[1] <= two[0]


def test_measuring_rules_take_all_cores_and_a_turn(planned):
    done = planned.run("-n", "--cores", "3")
    blocks = done.stdout.split("\nrule ")
    # on a CPU profiles as well
    measuring = [block for block in blocks if block.startswith(("machine", "prepare", "measure", "profile"))]
    assert len(measuring) >= 6
    assert all("threads: 3" in block and "turn=1" in block for block in measuring)
    # a node without one would refuse it
    assert "gpu=1" not in done.stdout
    # two gates at a time, and nothing that is timed beside them
    gates = [block for block in blocks if block.startswith("validate")]
    assert len(gates) >= 2 and not any("threads: 3" in block or "turn=" in block for block in gates)


def test_a_mistake_in_the_configuration_is_one_sentence(tmp_path):
    project = make_project(tmp_path / "project", {"layout": CONTRACT / "layout.py"})
    project.configure(workloads={"layout": {"source": "layout.py", "cases": ["pionts"]}})
    done = project.run("-n", check=False)
    assert done.returncode == 1
    assert "workloads.layout.cases: 'pionts' is unknown; choose among points" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_job_that_would_not_fit_into_the_budget_is_not_started(tmp_path):
    project = make_project(tmp_path / "project", {"layout": CONTRACT / "layout.py"})
    done = project.call("phasewise", "run", "--budget", "30s", check=False)
    assert done.returncode != 0
    assert "machine: may take 60 s and" in done.stdout + done.stderr
    assert "call the same command again to go on" in done.stdout + done.stderr
    assert not list((project.folder / "profiles").rglob("validate.json"))
    # without a budget all of it is still to be done
    assert {"machine", "prepare", "validate 00-baseline"} <= project.jobs()
