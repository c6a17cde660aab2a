"""What runs again after a change, and what does not: job lists of dry runs on a finished project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graph.projects import copy_project, lend, list_jobs, make_project, share

STACKED = Path(__file__).with_name("stacked")
# the stages that read records and run nothing
READING = {"analyse", "report", "index"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, lender):
    """A project whose graph has run to its end; nobody changes it."""

    def make(folder):
        project = make_project(folder, {"stacked": STACKED}, profilers=[], exporters=["torch-export"])
        lend(lender, project)
        project.run()
        return project

    return share(tmp_path_factory, "finished", make)


@pytest.fixture
def project(finished, tmp_path):
    """A copy of the finished project, to be changed."""
    return copy_project(finished, tmp_path / "project")


def of(variants, *rules):
    return {f"{rule} {variant}" for rule in rules for variant in variants}


def expensive(jobs):
    """The jobs that build programs."""
    building = ("machine", "prepare", "validate", "measure", "headline", "control", "profile", "export")
    return {job for job in jobs if job.split()[0] in building}


def test_a_finished_run_has_nothing_to_do_also_in_another_folder(project):
    done = project.run("-n")
    assert "Nothing to be done" in done.stdout + done.stderr
    assert not project.jobs()


def test_comments_docstrings_layout_and_ages_re_run_nothing(project):
    project.edit("stacked/program.py", "# an empty comment", "# a comment\n    # that says more")
    project.edit("stacked/rows.py", "    return x.sum(1)\n", '    """Sum each row."""\n    return x.sum( 1 )\n')
    (project.folder / "README.md").write_text("About these sums.\n")
    for path in project.folder.rglob("*"):
        if ".snakemake" not in path.parts and path.is_file():
            path.touch()
    assert not project.jobs()


def test_a_switch_value_re_runs_its_phase_and_what_is_built_on_it(project):
    project.edit("stacked/phases.py", '{"block": 64}', '{"block": 32}')
    again = ("02-blocked", "03-doubled")
    assert expensive(project.jobs()) == (
        of(again, "validate", "measure", "profile") | of(["02-blocked"], "export") | of(["rows"], "headline", "control")
    )


def test_a_phase_whose_kernel_is_a_new_file_re_runs_no_other_gate_or_measurement(project):
    (project.folder / "stacked/columns.py").write_text("def sum_up(x):\n    return x.T.sum(0)\n")
    project.edit(
        "stacked/phases.py",
        "    ),\n    targets",
        '        Phase("again", {"vectorised": True, "block": 0}, because=Idea("rows once more")),\n    ),\n    targets',
    )
    jobs = expensive(project.jobs())
    # the stack has another end
    assert {job for job in jobs if job.split()[0] not in ("profile", "export")} == (
        of(["04-again"], "validate", "measure") | of(["rows"], "headline", "control")
    )


def test_the_file_that_chooses_among_all_re_runs_them_all(project):
    project.edit("stacked/program.py", "    if switches.doubled:", "    if switches.doubled and True:")
    assert of(("00-baseline", "01-vectorised", "02-blocked", "03-doubled"), "validate", "measure") <= project.jobs()


def test_a_better_sentence_re_runs_analysis_and_report_alone(project):
    project.edit("stacked/phases.py", "Results change between repeats", "Two runs give different results")
    project.edit("stacked/phases.py", "minimum=1.0", "minimum=1.5")
    jobs = project.jobs()
    assert not expensive(jobs)
    assert jobs >= READING


def test_another_phases_kernel_re_runs_that_phase_alone(project):
    project.edit("stacked/doubled.py", "return (x + x).sum(1) / 2", "return (2 * x).sum(1) / 2")
    jobs = project.jobs()
    assert expensive(jobs) == of(["03-doubled"], "validate", "measure", "profile")
    assert jobs - expensive(jobs) == {"predict 03-doubled", "analyse_variant 03-doubled", *READING}


def test_a_kernel_that_all_later_phases_replace_re_runs_its_own_phase_and_their_comparisons(project):
    project.edit("stacked/rows.py", "    return x.sum(1)\n", "    return x.sum(dim=1)\n")
    jobs = expensive(project.jobs())
    assert of(["01-vectorised"], "validate", "measure", "profile") <= jobs
    assert not jobs & (of(["00-baseline"], "validate", "measure", "profile"))


def test_another_exporter_measures_nothing(project):
    project.configure(exporters=["torch-export", "onnx"])
    assert expensive(project.jobs()) == of(["02-blocked"], "export", "profile")


def test_a_deleted_record_is_made_again_with_what_was_read_from_it(project):
    (project.records("stacked", "03-doubled") / "measure.json").unlink()
    jobs = project.jobs()
    assert expensive(jobs) == {"measure 03-doubled"}
    assert jobs - expensive(jobs) == {"analyse_variant 03-doubled", *READING}


def test_another_shape_prepares_again_and_everything_is_measured_again(project):
    project.edit("stacked/phases.py", "Shape(n=", "Shape(n=1 + ")
    everything = ("00-baseline", "01-vectorised", "02-blocked", "03-doubled")
    jobs = expensive(project.jobs())
    assert "prepare" in jobs
    assert of(everything, "validate", "measure", "profile") | of(["rows"], "headline", "control") <= jobs


def test_a_machine_that_changed_is_measured_again_and_nothing_else(project):
    assert expensive(jobs_after_an_upgrade(project)) == {"machine"}


def test_a_phase_that_changed_is_measured_beside_a_machine_that_is_measured_again(project):
    project.edit("stacked/doubled.py", "return (x + x).sum(1) / 2", "return (2 * x).sum(1) / 2")
    again = of(["03-doubled"], "validate", "measure", "profile")
    assert expensive(jobs_after_an_upgrade(project)) == {"machine"} | again


def jobs_after_an_upgrade(project):
    identity = project.folder / "profiles" / "machines" / "cpu.identity.json"
    machine = json.loads(identity.read_text())
    identity.write_text(json.dumps({**machine, "versions": {**machine["versions"], "numpy": "1"}}))
    return list_jobs(project.run("-n", PHASEWISE_MACHINE="cpu").stdout)


def test_after_new_peaks_one_run_judges_everything(project):
    machine = project.folder / "profiles" / "machines" / "cpu.json"
    plain = json.loads(machine.read_text())
    plain["peaks"]["copy_bytes_per_s"] *= 1.5
    machine.write_text(json.dumps(plain))
    judging = of(["00-baseline", "01-vectorised", "02-blocked", "03-doubled"], "analyse_variant")
    assert project.jobs() == judging | READING
    project.run()
    assert not project.jobs()
    assert not [alarm for alarm in project.summary("stacked")["alarms"] if "two kinds" in alarm]
