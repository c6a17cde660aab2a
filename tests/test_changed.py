"""Which studies' tests are left out after which change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from changed import choose_left_out, name_concerned, read_imports

TREE = {
    "src/phasewise/__init__.py": "from phasewise.model import Workload",
    "src/phasewise/__main__.py": "import phasewise.report",
    "src/phasewise/model.py": "Workload = 1",
    "src/phasewise/report.py": "import phasewise.pages",
    "src/phasewise/pages.py": "",
    "src/phasewise/run.py": "",
    "src/phasewise/kit/__init__.py": "",
    "src/phasewise/kit/graphs.py": "",
    "src/phasewise_studies/__init__.py": "",
    "src/phasewise_studies/testing.py": "",
    "src/phasewise_studies/tests/__init__.py": "",
    "src/phasewise_studies/tests/test_links.py": "",
    "src/phasewise_studies/one/__init__.py": "",
    "src/phasewise_studies/one/phases.py": "import phasewise",
    "src/phasewise_studies/one/tests/__init__.py": "",
    "src/phasewise_studies/one/tests/test_one.py": "from plans import plan\ndef test(): from .. import phases",
    # imports the first, and starts a process
    "src/phasewise_studies/two/__init__.py": "",
    "src/phasewise_studies/two/phases.py": "from phasewise_studies.one import phases",
    "src/phasewise_studies/two/tests/__init__.py": "",
    "src/phasewise_studies/two/tests/test_two.py": 'COMMAND = ["python", "-m", "phasewise.run"]',
    "src/phasewise_studies/three/__init__.py": "",
    "src/phasewise_studies/three/tests/__init__.py": "",
    "src/phasewise_studies/three/tests/test_three.py": 'COMMAND = "python -m phasewise report"',
    "tests/plans.py": "plan = 1",
    "tests/test_core.py": "",
}
ALL = {"one", "two", "three"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "concerned"),
    [
        ("src/phasewise_studies/two/notes/results.md", {"two"}),
        ("src/phasewise_studies/one/README.md", {"one", "two"}),
        ("src/phasewise_studies/one/gone.py", {"one", "two"}),
        ("src/phasewise_studies/testing.py", set()),
        ("src/phasewise_studies/__init__.py", ALL),
        ("src/phasewise_studies/tests/test_links.py", set()),
        ("src/phasewise_studies/pyproject.toml", ALL),
        # importing anything of a package imports the package
        ("src/phasewise/model.py", ALL),
        ("src/phasewise/run.py", {"two"}),
        ("src/phasewise/pages.py", {"three"}),
        ("src/phasewise/gone.py", ALL),
        ("src/phasewise/page.html.j2", ALL),
        ("src/phasewise/kit/graphs.py", ALL),
        ("tests/plans.py", {"one"}),
        ("tests/test_core.py", set()),
        ("tests/gone.py", ALL),
        ("docs/tutorial.md", set()),
        ("reports/two/full-h200/index.md", {"two"}),
        ("notebooks/three.ipynb", {"three"}),
        ("examples/common.py", ALL),
        ("requirements.lock", ALL),
        ("conftest.py", ALL),
        ("workflow/config.yaml", ALL),
    ],
)
def test_a_change_concerns_the_studies_that_can_see_it(tree: Path, changed: str, concerned: set[str]) -> None:
    assert name_concerned([changed], read_imports(tree), ALL) == concerned


def test_changes_add_up(tree: Path) -> None:
    imports = read_imports(tree)
    assert name_concerned(["notebooks/three.ipynb", "tests/plans.py"], imports, ALL) == {"one", "three"}
    assert name_concerned([], imports, ALL) == set()


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def cloned(tree: Path) -> Path:
    """A repository that is as origin/main is."""
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "all")
    git(tree, "update-ref", "refs/remotes/origin/main", "HEAD")
    return tree


def test_without_git_without_a_base_or_without_a_change_everything_runs(tree: Path) -> None:
    assert choose_left_out(tree, "HEAD")[0] == []
    git(tree, "init", "-q")
    assert choose_left_out(tree, None) == ([], "studies: all tests, for no commit to compare with is known")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "all")
    assert choose_left_out(tree, None) == ([], "studies: all tests, for no commit to compare with is known")
    assert choose_left_out(tree, "HEAD") == ([], "studies: all tests, for nothing changed")
    left_out, told = choose_left_out(tree, "no-such-commit")
    assert left_out == [] and "is not known" in told


def test_a_fresh_clone_runs_everything(cloned: Path) -> None:
    assert choose_left_out(cloned, None) == ([], "studies: all tests, for nothing changed")


def test_what_is_committed_edited_new_or_gone_since_the_base_counts(cloned: Path) -> None:
    base = git(cloned, "rev-parse", "HEAD")[:9]
    one, three = (cloned / f"src/phasewise_studies/{name}" for name in ("one", "three"))
    (three / "notes.md").write_text("new")
    assert choose_left_out(cloned, None) == (
        ["one", "two"],
        f"studies: tests of one, two left out, unchanged since {base}; `make test-all` runs them",
    )
    git(cloned, "add", "-A")
    git(cloned, "commit", "-q", "-m", "notes")
    assert choose_left_out(cloned, None)[0] == ["one", "two"]
    (one / "phases.py").unlink()
    assert choose_left_out(cloned, None) == ([], f"studies: all tests, for what changed since {base} concerns all")
    # what another commit than origin/main is compared with
    git(cloned, "checkout", "--", ".")
    (cloned / "tests/plans.py").write_text("plan = 2")
    assert choose_left_out(cloned, "HEAD")[0] == ["three", "two"]


def test_a_file_that_cannot_be_read_leaves_nothing_out(cloned: Path) -> None:
    (cloned / "tests/plans.py").write_text("plan =")
    assert choose_left_out(cloned, None)[0] == []


@pytest.mark.parametrize(
    "words", [pytest.param((), id="alone"), pytest.param(("-n", "2"), id="side-by-side", marks=pytest.mark.slow)]
)
def test_what_is_left_out_is_not_run_and_is_told(cloned: Path, words: tuple[str, ...]) -> None:
    for name in ("one", "two", "three"):
        (cloned / f"src/phasewise_studies/{name}/tests/test_{name}.py").write_text("def test(): pass")
    (cloned / "pytest.ini").write_text("[pytest]")
    git(cloned, "add", "-A")
    git(cloned, "commit", "-q", "-m", "tests")
    (cloned / "src/phasewise_studies/two/phases.py").write_text("")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "leave_out", *words]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "PHASEWISE_TEST_BASE": "HEAD"}
    # those of pytest-xdist say what they belong to
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]

    def run(*more: str) -> str:
        done = subprocess.run(
            [*command, *more], cwd=cloned, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    some = run("--changed-studies")
    assert "test_two.py::test" in some and "test_one.py" not in some and "1 passed" in some
    assert "studies: tests of one, three left out" in some
    every = run()
    assert "3 passed" in every and "studies:" not in every
