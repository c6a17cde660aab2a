"""What the README's first lines say to type does what they say, in a clone that has run nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from graph.projects import REPOSITORY


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clone") / "phasewise"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{REPOSITORY}", str(folder)], check=True)
    return folder


def call(clone, *words, limit_s=500):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        words, cwd=clone, capture_output=True, text=True, check=False, timeout=limit_s, env={**os.environ, "PATH": path}
    )


def test_the_numbers_on_record_are_there_at_once(clone):
    done = call(clone, "dvc", "metrics", "show", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)[""]["data"]["reports/metrics.json"]["data"]
    assert shown["bk_core"]


@pytest.mark.parametrize(
    "words", [("snakemake", "-n"), ("snakemake", "--cores", "2", "-n"), ("snakemake", "--cores", "all", "-n")]
)
def test_what_would_run_is_told(words, clone):
    done = call(clone, *words)
    assert done.returncode == 0 and "validate" in done.stdout + done.stderr


def test_the_readme_says_what_stands_behind_cores(clone):
    done = call(clone, "snakemake", "--cores")
    assert "expected one argument" in done.stderr, "then the README need not say it any more"
    assert "`snakemake --cores 2`" in "".join((clone / "README.md").read_text().splitlines()[:30])


def test_without_a_remote_a_pull_says_so_as_the_readme_does(clone):
    done = call(clone, "dvc", "pull")
    assert "The repository comes without a DVC remote" in (clone / "README.md").read_text()
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_main_job_leaves_what_git_keeps_as_it_is(clone):
    """What `make report` runs once the environment is there."""
    done = call(clone, "snakemake", "--quiet", "rules", limit_s=1700)
    assert done.returncode == 0, done.stderr
    assert (clone / "reports/bk_core/tiny-cpu/index.html").is_file()
    assert call(clone, "git", "status", "--porcelain").stdout == ""


@pytest.mark.slow
def test_the_index_is_rendered_where_nothing_ran(clone):
    done = call(clone, "dvc", "repro", "--single-item", "index")
    assert done.returncode == 0, done.stderr
    assert (clone / "reports/index.html").is_file()
    assert json.loads(call(clone, "dvc", "status", "index", "--json").stdout) == {}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_dvc_keeps_a_run_at_tiny_as_the_readme_says_and_a_clone_has_it(tmp_path):
    """From `dvc repro` to a clone that pulled, with a folder as the remote; of one phase, to be done in minutes."""
    store, first, second = tmp_path / "store", tmp_path / "first", tmp_path / "second"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{REPOSITORY}", str(first)], check=True)
    (told,) = re.findall(r"write `(machines: \[cpu\])` and `(records: .*?})`\n", (first / "README.md").read_text())
    (first / "workflow/record.yaml").write_text("\n".join(told))
    for name, words in ((".dvcignore", ("tiny-",)), (".gitignore", ("tiny-", "cpu"))):
        lines = (first / name).read_text().splitlines()
        (first / name).write_text("\n".join(line for line in lines if not any(word in line for word in words)) + "\n")
    configuration = yaml.safe_load((first / "workflow/config.yaml").read_text())
    configuration["workloads"] = {"bk_core": {"cases": ["forward"], "phases": ["mixed-precision"]}}
    (first / "workflow/config.yaml").write_text(yaml.safe_dump(configuration | {"exporters": ["torch-export"]}))
    for words in (
        ("dvc", "remote", "add", "--default", "store", str(store)),
        ("dvc", "repro"),
        ("dvc", "push"),
        ("git", "add", "--all"),
        ("git", "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "--quiet", "--message", "kept"),
        ("git", "clone", "--quiet", str(first), str(second)),
    ):
        done = call(first, *words, limit_s=900)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    done = call(second, "dvc", "pull")
    assert done.returncode == 0, done.stderr
    assert json.loads(call(second, "dvc", "status", "--json").stdout).keys() == {"machine@cpu"}
    assert call(second, "phasewise", "files", "bk_core", "tiny-cpu", "--check").returncode == 0
    assert list((second / "exports/bk_core/tiny-cpu").rglob("*.pt2"))
    done = call(second, "snakemake", "--dry-run")
    assert "Nothing to be done" in done.stdout + done.stderr
