"""What goes wrong stays where it went wrong, and is told in one sentence."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from graph.projects import RUN, copy_project, lend, make_project, share, surroundings

FAULTY = Path(__file__).with_name("faulty.py")
# the part of the markup in faulty.py that a browser would run
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def finished(tmp_path_factory, lender):
    """A project whose graph has run to its end, with five phases that can't; nobody changes it."""

    def make(folder):
        # validation waits four times as long for a phase that hangs
        project = make_project(folder, {"faulty": FAULTY}, profilers=["torch"], measure={"timeout_s": 10})
        lend(lender, project)
        done = project.run()
        # what is printed of a traceback is the user's
        frames = re.findall(r'File "(.*?)", line', done.stdout + done.stderr)
        assert frames and not any("phasewise" in frame for frame in frames)
        return project

    return share(tmp_path_factory, "faults", make)


@pytest.fixture
def project(finished, tmp_path):
    """A copy of the finished project, to be damaged."""
    return copy_project(finished, tmp_path / "project")


def rows(project):
    return {row["phase"]: row for row in project.summary("faulty")["phases"]}


@pytest.mark.parametrize(
    ("phase", "status", "reason", "words"),
    [
        ("killed", "FAILED", "killed", "killed by SIGKILL, and the kernel tells of no lack of memory"),
        ("aborts", "FAILED", "crash", "killed by SIGABRT"),
        ("raises", "FAILED", "crash", "ValueError: no such layout"),
        ("hangs", "FAILED", "timeout", "was not done after 40 s"),
        ("nonsense", "INVALID", "red-gate", "128 of 128 values are not finite"),
    ],
)
def test_a_phase_that_goes_wrong_is_a_result_with_its_reason(finished, phase, status, reason, words):
    row = rows(finished)[phase]
    assert (row["status"], row["reason"]) == (status, reason)
    assert words in row["detail"]
    assert row["time_s"] is None and row["speedup_baseline"] is None
    page = finished.page("faulty", "results.html")
    assert status in page and words in finished.pages("faulty")


def test_the_others_are_unharmed(finished):
    row = rows(finished)["vectorised"]
    assert row["validation"] == "pass" and row["time_s"] > 0 and row["speedup_previous"]["estimate"] > 1
    assert finished.summary("faulty")["stack"]["variant"] == "06-vectorised"
    assert not finished.jobs()


def test_retry_deletes_the_records_of_failed_variants_and_only_these(project):
    before = project.contents("*.json")
    done = project.call("phasewise", "retry", "faulty", RUN)
    assert "4 variants will be run again" in done.stdout
    gone = before.keys() - project.contents("*.json").keys()
    failed = ("01-killed", "02-aborts", "03-raises", "04-hangs")
    records = f"profiles/records/faulty/{RUN}"
    assert gone == {
        *(
            f"{records}/{variant}/{stage}.json"
            for variant in failed
            for stage in ("validate", "measure", "profile", "analyse")
        ),
        *(f"{records}/{name}.json" for name in ("analyse", "ledger", "summary")),
    }
    jobs = project.jobs()
    assert jobs == {
        *(f"{rule} {variant}" for variant in failed for rule in ("validate", "measure", "profile", "analyse_variant")),
        *("analyse", "report", "index"),
    }


def test_a_truncated_record_stops_the_run_with_one_sentence_and_deleting_it_cures_that(project):
    record = project.records("faulty", "00-baseline") / "validate.json"
    whole = record.read_bytes()
    record.write_bytes(whole[: len(whole) // 2])
    done = project.run("profiles/records/faulty/tiny-cpu/00-baseline/measure.json", check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 1
    assert f"{record}: not a whole JSON record" in told and "delete it and run the stage again" in told
    assert "Traceback" not in told
    # a page can be rendered meanwhile, and shows the hole
    project.call("phasewise", "report", "faulty", RUN)
    assert "00-baseline/validate.json: not a whole JSON record" in project.page("faulty")
    record.unlink()
    project.run("profiles/records/faulty/tiny-cpu/00-baseline/measure.json")
    assert project.read("faulty", "00-baseline", "validate")["cases"][0]["outcome"] == "pass"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 99}, "schema 99 is unknown, this version reads 1"),
        ({"variant": None}, "not a Validation"),
        ({"surprise": 1}, "not a Validation"),
    ],
    ids=["newer", "wrong-type", "unknown-field"],
)
def test_a_record_of_another_kind_or_version_is_refused_by_name(project, change, words):
    record = project.records("faulty", "06-vectorised") / "validate.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), **change}))
    done = project.call("phasewise", "analyse", "faulty", RUN, check=False)
    assert done.returncode == 2
    assert f"{record}: " in done.stderr and words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_where_the_reports_should_go_is_one_sentence_and_no_half_page(project):
    reports = project.folder / "reports"
    reports.rename(project.folder / "elsewhere")
    reports.write_text("not a folder\n")
    done = project.call("phasewise", "report", "faulty", RUN, check=False)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr and done.stderr.count("\n") == 1
    assert reports.read_text() == "not a folder\n"


def test_a_full_disk_is_one_sentence_and_leaves_the_old_page_whole(project):
    page = project.folder / "reports" / "faulty" / RUN / "index.html"
    page.write_text("an older page\n")

    def fill():
        # stands in for a full disk: nothing larger than this can be written
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = subprocess.run(
        [sys.executable, "-m", "phasewise", "report", "faulty", RUN],
        cwd=project.folder,
        env=surroundings(project.folder),
        preexec_fn=fill,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert f"{page}: cannot be written (File too large)" in done.stderr and done.stderr.count("\n") == 1
    assert page.read_text() == "an older page\n"
    assert not list(page.parent.glob(".*"))


def test_markup_in_any_text_is_shown_and_never_run(finished):
    pages = [*(finished.folder / "reports").rglob("*.html")]
    assert len(pages) >= 2
    for page in pages:
        assert HOSTILE not in page.read_text(), page
    assert finished.pages("faulty").count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 8
    for figure in (finished.folder / "reports").rglob("*.svg"):
        assert HOSTILE not in figure.read_text(), figure


@pytest.mark.parametrize("name", ["../up", "a/b", "Default", "default", "ünï", ""])
def test_a_name_that_is_no_safe_folder_is_refused(tmp_path, name):
    project = make_project(tmp_path / "project", {"faulty": FAULTY})
    project.configure(workloads={name: {"source": "faulty.py"}})
    done = project.call("phasewise", "plan", check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert not (project.folder / "profiles").exists()
