"""DVC keeps what the graph made: one story, told in order, in a git repository with a remote beside it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from graph.projects import REPOSITORY, RUN, Project, make_project, put_on_record, share, surroundings

STACKED = Path(__file__).with_name("stacked")
# what the stages of dvc.yaml name, and what a `snakemake` in the folder needs
COPIED = (
    "Snakefile",
    "dvc.yaml",
    "requirements.lock",
    ".dvc/config",
    "workflow/rules",
    "workflow/schemas",
    "workflow/report",
)
RECORD = "machines: [cpu]\nrecords:\n  sums: {workload: sums, source: sums, run: tiny-cpu, device: cpu}\n"
# what is exported of it
MODULE = """class Sum(torch.nn.Module):
        def forward(self, x):
            return step({"x": x})

    return Program(step=step, module=Sum())"""
# here a tiny run is the one on record
IGNORED = "/.snakemake/\n/logs/\n/data/\n/exports/\n/profiles/captures/\n/plots/\n__pycache__/\n"


def tool(project, *words, check=True):
    """A command in the project with this environment's commands first on the path."""
    path = {"PATH": f"{Path(sys.executable).parent}:{surroundings(project.folder)['PATH']}"}
    author = {f"GIT_{role}_{what}": "test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        words,
        cwd=project.folder,
        env=surroundings(project.folder, path | author),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    if check and done.returncode:
        raise AssertionError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


def commit(project, message):
    tool(project, "git", "add", "--all")
    tool(project, "git", "commit", "--quiet", "--message", message)


def status(project):
    """What DVC thinks has changed, but for the machine, which it always asks for again."""
    changed = json.loads(tool(project, "dvc", "status", "--json").stdout)
    return {stage: why for stage, why in changed.items() if stage != "machine@cpu"}


def make_record(folder):
    """A project on record: run by DVC, changed, run again, pushed. Each step leaves what it printed."""
    project = make_project(folder, {"sums": STACKED}, exporters=["torch-export"])
    project.configure(workloads={"sums": {"source": "./sums", "phases": ["blocked"]}})
    project.edit("sums/program.py", "return Program(step=step)", MODULE)
    for name in COPIED:
        source, target = REPOSITORY / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copyfile(source, target)
    shutil.copytree(REPOSITORY / "profiles/default", folder / "profiles/default")
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "src/phasewise", folder / "src/phasewise", ignore=skip)
    (folder / "workflow/record.yaml").write_text(RECORD)
    (folder / ".gitignore").write_text(IGNORED)
    (folder / ".dvcignore").write_text("/.snakemake/log\n/logs\n__pycache__\n")
    tool(project, "git", "init", "--quiet")
    tool(project, "dvc", "remote", "add", "--default", "store", str(folder.with_name("store")))
    said = {"first": tool(project, "dvc", "repro").stdout}
    commit(project, "first")
    tool(project, "dvc", "push")
    before = project.contents("*.json")
    said["second"] = tool(project, "dvc", "repro").stdout
    assert project.contents("*.json") == before
    said["metrics"] = tool(project, "dvc", "metrics", "show", "--json").stdout
    project.edit("sums/phases.py", '{"block": 64}', '{"block": 32}')
    said["third"] = tool(project, "dvc", "repro").stdout
    said["difference"] = tool(project, "dvc", "metrics", "diff", "--json").stdout
    commit(project, "smaller blocks")
    tool(project, "dvc", "push")
    (folder / "logs" / "said.json").write_text(json.dumps(said))
    return project


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """The project on record; nobody changes it."""
    return share(tmp_path_factory, "record", make_record)


@pytest.fixture(scope="module")
def said(record):
    """What the commands that made it printed."""
    return json.loads((record.folder / "logs" / "said.json").read_text())


@pytest.fixture
def clone(record, tmp_path):
    """A fresh clone with the data pulled from the remote."""
    subprocess.run(["git", "clone", "--quiet", str(record.folder), str(tmp_path / "clone")], check=True)
    found = Project(tmp_path / "clone")
    tool(found, "dvc", "pull", "--quiet")
    return found


@pytest.mark.slow
def test_repro_runs_the_graph_to_the_report(record, said):
    assert "Running stage 'workload@sums'" in said["first"] and "Running stage 'index'" in said["first"]
    assert record.summary("sums")["phases"][0]["validation"] == "pass"
    assert "01-blocked" in record.page("sums", "phases.html")
    locked = (record.folder / "dvc.lock").read_text()
    for out in (f"profiles/records/sums/{RUN}", f"profiles/captures/sums/{RUN}", f"exports/sums/{RUN}", "reports"):
        assert f"path: {out}\n" in locked
    assert not status(record)


@pytest.mark.slow
def test_a_second_repro_does_nothing(said):
    for stage in ("workload@sums", "index"):
        assert f"Stage '{stage}' didn't change, skipping" in said["second"]


@pytest.mark.slow
def test_metrics_are_the_summarys_numbers(said, record):
    shown = json.loads(said["metrics"])[""]["data"]["reports/metrics.json"]["data"]
    numbers = shown["sums"][RUN]["rows"]
    assert numbers["speedup"] > 1 and numbers["time_s"] > 0
    # what stands on record now is the later run
    now = json.loads((record.folder / "reports/metrics.json").read_text())["sums"][RUN]["rows"]
    summary = record.summary("sums")
    assert summary["phases"][0]["time_s"], summary["phases"][0]
    assert now["speedup"] == summary["stack"]["speedup"]["estimate"]
    assert now["time_s"] == summary["phases"][0]["time_s"] != numbers["time_s"]


@pytest.mark.slow
def test_a_changed_switch_shows_in_the_difference(said):
    assert "Running stage 'workload@sums'" in said["third"]
    changed = json.loads(said["difference"])["reports/metrics.json"]
    assert changed[f"sums.{RUN}.rows.time_s"]["diff"] != 0
    assert changed[f"sums.{RUN}.rows.speedup"]["old"] != changed[f"sums.{RUN}.rows.speedup"]["new"]


@pytest.mark.slow
def test_plots_show_the_phases(record, tmp_path):
    tool(record, "dvc", "plots", "show", "--out", str(tmp_path / "plots"))
    page = (tmp_path / "plots" / "index.html").read_text()
    assert "Speed-up over the baseline" in page and f"sums {RUN} rows: 01-blocked" in page


@pytest.mark.slow
def test_a_clone_with_pulled_data_has_nothing_to_do(record, clone):
    kept = [[*(record.folder / name).rglob("*.*")] for name in ("profiles/captures", "exports")]
    assert all(kept)
    for path in (path for found in kept for path in found if path.is_file()):
        assert (clone.folder / path.relative_to(record.folder)).read_bytes() == path.read_bytes()
    assert not status(clone)
    assert "files are here as listed" in tool(clone, "phasewise", "files", "sums", RUN, "--check").stdout
    done = tool(clone, "snakemake", "--dry-run")
    assert "Nothing to be done" in done.stdout + done.stderr
    before = clone.contents("*.json")
    repeated = tool(clone, "dvc", "repro").stdout
    assert "Stage 'workload@sums' didn't change, skipping" in repeated
    assert clone.contents("*.json") == before


@pytest.mark.slow
def test_a_clone_that_pulled_nothing_puts_nothing_in_the_place_of_what_lies_in_the_remote(record, tmp_path):
    subprocess.run(["git", "clone", "--quiet", str(record.folder), str(tmp_path / "clone")], check=True)
    bare = Project(tmp_path / "clone")
    listed = bare.read("sums", "", "files")["files"]
    assert {one["path"].split("/")[0] for one in listed} == {"profiles", "exports"}
    done = tool(bare, "dvc", "repro", check=False)
    assert (
        done.returncode
        and f"{listed[0]['path']}: listed in profiles/records/sums/{RUN}/files.json, and not here" in done.stderr
    )
    assert not tool(bare, "git", "diff", "--", "dvc.lock", "profiles").stdout


@pytest.mark.slow
def test_what_a_box_brought_is_kept_without_a_run(clone, tmp_path):
    """As after `phasewise unpack`: records, captures and exports are here, and nothing says so to DVC."""
    before = clone.contents("*.json")
    tool(clone, "git", "rm", "--quiet", "dvc.lock")
    shutil.rmtree(clone.folder / ".dvc/cache")
    tool(clone, "dvc", "remote", "add", "--force", "--default", "store", str(tmp_path / "another"))
    tool(clone, "dvc", "commit", "--force")
    tool(clone, "dvc", "push")
    commit(clone, "kept")
    assert clone.contents("*.json") == before
    subprocess.run(["git", "clone", "--quiet", str(clone.folder), str(tmp_path / "next")], check=True)
    later = Project(tmp_path / "next")
    tool(later, "dvc", "pull")
    assert not status(later)
    tool(later, "phasewise", "files", "sums", RUN, "--check")
    assert clone.contents("*.json") == later.contents("*.json")


@pytest.mark.slow
def test_an_earlier_commit_comes_back_whole(clone):
    tool(clone, "git", "checkout", "--quiet", "HEAD~1")
    tool(clone, "dvc", "pull", "--quiet")
    assert not status(clone)
    assert clone.read("sums", "01-blocked", "plan")["switches"] == {"block": 64}
    done = tool(clone, "snakemake", "--dry-run")
    assert "Nothing to be done" in done.stdout + done.stderr


def test_another_machines_run_is_refused_before_anything_is_written(tmp_path):
    project = make_project(tmp_path / "project", {"sums": STACKED})
    done = project.call("phasewise", "run", "--expect", "full-h200", check=False)
    assert done.returncode == 2 and "this machine makes tiny-cpu" in done.stderr
    assert not (project.folder / "profiles").exists()


def test_another_machines_run_on_record_is_left_as_it_is(tmp_path):
    project = make_project(tmp_path / "project", {"sums": STACKED})
    put_on_record(project, "h100")
    (project.folder / "profiles/machines/h100.json").write_text("{}")
    said = project.call("phasewise", "run", "--expect", "full-h100").stdout
    assert "full-h100 is another machine's and stays as it is" in said
    assert not (project.folder / "profiles/records/sums" / RUN / "summary.json").exists()
    done = project.run("--", "profiles/machines/h100.json")
    assert "Nothing to be done" in done.stdout + done.stderr


def test_every_run_on_record_has_its_entry():
    """The machines are those of the runs, and no run on record is left out."""
    told = yaml.safe_load((REPOSITORY / "workflow/record.yaml").read_text())
    entries = {(entry["workload"], entry["run"]) for entry in told["records"].values()}
    summaries = REPOSITORY.glob("profiles/records/*/full-*/summary.json")
    assert entries >= {(path.parent.parent.name, path.parent.name) for path in summaries}
    assert all(entry["run"] == f"full-{entry['device']}" for entry in told["records"].values())
    assert set(told["machines"]) == {entry["device"] for entry in told["records"].values()}


def test_stages_of_the_repository_own_what_the_graph_writes():
    """No link into the cache, since Snakemake writes in place; every out survives a `repro` that begins."""
    assert 'type = "reflink,copy"' in (REPOSITORY / ".dvc/config").read_text()
    text = (REPOSITORY / "dvc.yaml").read_text()
    outs = [line for line in text.splitlines() if line.strip().startswith("- ") and "{persist" in line]
    assert len(outs) == 6 and all("persist: true" in line for line in outs)


def test_a_lock_file_in_git_comes_with_a_remote_to_fetch_from():
    tracked = subprocess.run(["git", "ls-files", "dvc.lock"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    assert not tracked or "remote = " in (REPOSITORY / ".dvc/config").read_text()
