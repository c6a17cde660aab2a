"""What is built and installed works by itself, outside the repository: judge, look, init and run."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PAIR = """
import torch


def slow(x):
    return torch.stack([row.sum() for row in x])


def fast(x):
    return x.sum(1)


def setup():
    return (torch.randn(512, 64),)
"""
TRAINING = """
import torch

model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(30):
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A fresh environment with the built wheel; what it depends on is that of the tests, since torch takes minutes to install."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(REPOSITORY)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("phasewise-*.whl")
    venv.create(folder / "environment", with_pip=False)
    python = folder / "environment" / "bin" / "python"
    subprocess.run(
        [*pip, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)],
        check=True,
        capture_output=True,
    )
    library = next((folder / "environment").glob("lib/python*/site-packages"))
    # a path in a .pth file is one to import from; files there that add others, such as the repository's, are not read
    (library / "of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def call(python, folder, *words):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(python.parent / "phasewise"), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


@pytest.mark.slow
def test_the_wheel_is_what_is_imported_and_has_its_files(installed, tmp_path):
    code = "import phasewise, snakemake_logger_plugin_phasewise as plugin; print(phasewise.__file__); print(plugin.__file__)"
    done = subprocess.run([installed, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        assert Path(line).is_relative_to(installed.parents[1])
    project = Path(done.stdout.splitlines()[0]).parent / "project"
    for name in (
        "Snakefile",
        "workflow/rules/measure.smk",
        "workflow/schemas/config.schema.yaml",
        "profiles/default/profile.yaml",
    ):
        assert (project / name).read_bytes() == (REPOSITORY / name).read_bytes()
    assert (project.parent / "carry/run.sh").is_file()


@pytest.mark.slow
def test_it_judges(installed, tmp_path):
    (tmp_path / "sums.py").write_text(PAIR)
    done = call(installed, tmp_path, "judge", "sums.py:slow", "sums.py:fast", "--device", "cpu", "--page", "page.html")
    # whether it is faster is a matter of the neighbours; that it is right is not
    assert done.returncode in (0, 12), done.stdout + done.stderr
    assert "the candidate is right" in done.stdout and (tmp_path / "page.html").is_file()


@pytest.mark.slow
def test_it_looks(installed, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    done = call(installed, tmp_path, "look", "--page", "page.html", "--", str(installed), "train.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a step of SGD" in done.stdout and (tmp_path / "page.html").is_file()


@pytest.mark.slow
def test_it_starts_a_project_and_runs_it(installed, tmp_path):
    assert call(installed, tmp_path, "init", "project").returncode == 0
    done = call(installed, tmp_path / "project", "run")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("[3 of ") and "validate my_workload" in line for line in lines)
    assert any(line.split()[:1] == ["01-vectorised"] for line in lines)
    assert "page: reports/my_workload/tiny-cpu/index.html" in lines
    assert (tmp_path / "project/reports/my_workload/tiny-cpu/index.html").is_file()
