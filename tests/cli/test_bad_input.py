"""What a user may get wrong, whole: a file, a configuration or a name ends in one sentence and exit code 2."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from phasewise.cli.explore import CONFIG, TEMPLATE
from phasewise.model import apart
from phasewise.model.configuration import read_configuration
from phasewise.model.layout import Layout
from phasewise.plan import find_machine, plan_runs
from phasewise.records.errors import PlanError

# what stands in the template, what is written in its place, and what is told of it
EDITS = {
    "environment raises": ("    phases=(\n", "    environment=lambda switches: 1 / 0,\n    phases=(\n", "ZeroDivisionError"),
    "environment of no text": ("    phases=(\n", "    environment=lambda switches: {'A': 1},\n    phases=(\n", "environment"),
    "environment with a nul": ("    phases=(\n", "    environment=lambda switches: {'A': '\\0'},\n    phases=(\n", "environment"),
    "post-init raises": (
        "    fused: bool = False\n",
        "    fused: bool = False\n\n    def __post_init__(self): raise KeyError('never')\n",
        "KeyError: 'never'",
    ),
    "default of NaN": ("fused: bool = False", "fused: float = float('nan')", "switch 'fused' = nan is not allowed"),
    "default of an object": ("fused: bool = False", "fused: tuple = (1,)", "switch 'fused' = (1,) is not allowed"),
    "ranks of text": ("fused: bool = False", "ranks: str = 'two'", "a whole number of processes"),
    "no build": ("def build(", "def built(", "has no function 'build'"),
    "no inputs": ("def make_inputs(", "def inputs(", "has no function 'make_inputs'"),
    "no workload": ("workload = Workload(", "other = Workload(", "`workload` is NoneType"),
    "workload of another kind": ("workload = Workload(", "workload = dict(", "`workload` is dict"),
    "missing program": ("    switches=Switches,", "    switches=Switches, program='not.there',", "not.there"),
    "unknown field": ("    switches=Switches,", "    switches=Switches, colour='red',", "unexpected keyword argument 'colour'"),
    "missing field": ("    switches=Switches,\n", "", "missing 1 required keyword-only argument: 'switches'"),
    "residant": ("Case(tiny", "Case(inputs='residant', tiny", "inputs = 'residant' is not allowed; one of 'timed', 'resident'"),
    "surrogate": ('summary="Sums', 'summary="\\ud800Sums', "summary = '\\ud800Sums of squares along rows' is not allowed"),
    "exits": ("import dataclass\n", "import dataclass\nraise SystemExit(0)\n", "exit status 0"),
    "leaves": ("import dataclass\n", "import dataclass\nimport os; os._exit(0)\n", "exit status 0"),
    "crashes": ("import dataclass\n", "import dataclass\nimport ctypes; ctypes.string_at(0)\n", "SIGSEGV"),
    "misspelt metric": ('Target("speedup"', 'Target("sppedup"', "target 'sppedup': did you mean 'speedup'?"),
    "unknown metric": ('Target("speedup"', 'Target("warmth"', "which way is better: better='higher' or better='lower'"),
    "nul": ("import dataclass\n", "import dataclass\n\0\n", "null bytes"),
}  # fmt: skip


@pytest.fixture
def project(tmp_path):
    """The project that `phasewise init` writes."""
    (tmp_path / "workflow").mkdir()
    (tmp_path / "w.py").write_text(TEMPLATE.read_text())
    (tmp_path / "workflow/config.yaml").write_text(CONFIG.format(name="w"))
    return tmp_path


def plan(project, repository):
    configuration = read_configuration(
        project / "workflow/config.yaml", repository / "workflow/schemas/config.schema.yaml"
    )
    return plan_runs(configuration, project, find_machine(Layout(project), "cpu"))


@pytest.mark.parametrize(("old", "new", "words"), EDITS.values(), ids=EDITS)
def test_a_mistake_in_a_workload_is_one_sentence(old, new, words, project, repository):
    text = TEMPLATE.read_text()
    assert old in text
    (project / "w.py").write_text(text.replace(old, new, 1))
    with pytest.raises(PlanError) as caught:
        plan(project, repository)
    assert words in str(caught.value)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 700


def test_a_file_that_loops_is_given_up(project, repository, monkeypatch):
    monkeypatch.setattr(apart, "TIMEOUT_S", 2.0)
    (project / "w.py").write_text("while True: pass\n")
    with pytest.raises(PlanError, match=re.escape("w (w.py): it was not read after 2 s")):
        plan(project, repository)


def test_the_workload_at_fault_is_named_among_several(project, repository):
    (project / "other.py").write_text("1 / 0\n")
    (project / "workflow/config.yaml").write_text("workloads: {w: {source: w.py}, x: {source: other.py}}\n")
    with pytest.raises(PlanError, match=re.escape("workload x (other.py): ZeroDivisionError")):
        plan(project, repository)


def test_a_file_of_the_name_of_one_of_pythons_is_a_workload_all_the_same(project, repository):
    (project / "w.py").rename(project / "random.py")
    (project / "workflow/config.yaml").write_text("workloads: {w: {source: random.py}}\n")
    assert len(plan(project, repository)) == 1
    (project / "json.py").write_text("raise RuntimeError('never imported')\n")
    (project / "random.py").rename(project / "w.py")
    (project / "workflow/config.yaml").write_text("workloads: {w: {source: w.py}}\n")
    assert len(plan(project, repository)) == 1


def call(folder, *arguments, module="phasewise"):
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip


SOURCES = {
    "absent": "not_there.py",
    "long": "x" * 10_000 + ".py",
    "circle": "circle.py",
    "folder": "./workflow",
    "module": "no.such.module",
    "empty module": "a..b",
    "nul": "a\\0.py",
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_source_that_cant_be_reached_is_one_sentence(source, project, repository):
    (project / "circle.py").symlink_to("circle.py")
    (project / "workflow/config.yaml").write_text(f'workloads: {{w: {{source: "{source}"}}}}\n')
    with pytest.raises(PlanError) as caught:
        plan(project, repository)
    assert str(caught.value).isprintable()


ESCAPES = "raise ValueError('\\x1b[2J\\x1b]0;title\\x07')\n"


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    "text", ["import sys; sys.exit(0)\n", "import os; os._exit(0)\n", ESCAPES], ids=["exit", "hard", "escapes"]
)
def test_a_file_that_leaves_is_no_success(command, text, project):
    (project / "w.py").write_text(text)
    done = call(project, command)
    assert done.returncode == 2
    assert not done.stdout
    assert done.stderr.startswith("phasewise: workload w (w.py): ") and done.stderr.count("\n") == 1
    assert done.stderr.strip().isprintable()


BOMB = "a: &a [x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)


def test_a_configuration_that_unfolds_without_end_is_refused_by_snakemake_too(project, repository):
    (project / "workflow/config.yaml").write_text(f"{CONFIG.format(name='w')}{BOMB}")
    done = call(project, "-n", "--snakefile", str(repository / "Snakefile"), module="snakemake")
    assert done.returncode != 0 and "the alias *a is not allowed" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_init_into_a_file_is_one_sentence(tmp_path):
    (tmp_path / "there").write_text("")
    done = call(tmp_path, "init", "there")
    assert done.returncode == 2 and "nothing can be written there" in done.stderr
    assert "Traceback" not in done.stderr


def test_asserts_and_docstrings_stay_where_the_environment_says_otherwise(tmp_path):
    done = subprocess.run(
        [sys.executable, "-OO", "-c", "import sys; sys.argv = ['phasewise', 'report']; from phasewise.cli import main; main()"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "PYTHONOPTIMIZE": "2"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "reports/index.html").is_file()
