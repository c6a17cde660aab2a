"""What a side may import, open and draw: as when it is run where the match is asked for, and the same in each process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from phasewise.match.load import make_batch
from phasewise.match.plan import name_paths
from phasewise.match.side import Side, parse_side, write_side

DRAWING = """
import random
import numpy
import torch

SCALE = torch.rand(8)
OFFSET = random.random()

def get_inputs():
    noise = numpy.random.randn(8, 8).astype("float32")
    return [torch.from_numpy(noise), random.random()]

def scale(x, by):
    return SCALE * x * by + OFFSET
"""


def test_inputs_and_constants_that_any_library_draws_are_the_same_in_each_process(tmp_path: Path) -> None:
    (tmp_path / "drawing.py").write_text(DRAWING)
    side = Side(source=str(tmp_path / "drawing.py"), name="scale")
    code = (
        "import sys\nfrom phasewise.match.load import find_object, make_batch\nfrom phasewise.match.side import read_side\n"
        "from phasewise.match.values import PLAIN, unpack_arguments\n"
        "side = read_side(sys.argv[1])\n"
        "for seed in (5, 5, 6):\n    batch = make_batch(side, {}, seed)\n    print(find_object(side)(*unpack_arguments(batch, batch[PLAIN])[0]).tolist())\n"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code, write_side(side)], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    first, again, other = told[0].splitlines()
    assert first == again != other
    assert told[0] == told[1]


def test_a_file_of_a_package_imports_its_siblings_either_way(tmp_path: Path) -> None:
    (package := tmp_path / "kernels" / "norms").mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package.parent / "sizes.py").write_text("ROWS = 3\n")
    (package / "fills.py").write_text("import torch\nfill = torch.ones\n")
    (package / "base.py").write_text(
        "from fills import fill\nfrom . import fills\nfrom ..sizes import ROWS\n\n"
        "def get_inputs():\n    return [fill(ROWS), fills.fill(ROWS)]\n"
    )
    assert make_batch(Side(source=str(package / "base.py")), {}, 0)["1"].shape == (3,)


def test_a_module_that_lies_here_is_found_though_the_path_of_a_command_lacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernels_here").mkdir()
    (tmp_path / "kernels_here" / "fast.py").write_text("def get_inputs():\n    return [1]\n")
    monkeypatch.chdir(tmp_path)
    code = "import kernels_here.fast; print('found')"
    told = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **name_paths()}
    )  # fmt: skip
    assert told.stdout == "found\n", told.stderr
    assert name_paths()["PYTHONPATH"].endswith(str(tmp_path))


def test_relative_paths_start_where_the_match_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.txt").write_text("3")
    file = tmp_path / "reads.py"
    file.write_text(
        "import torch\nROWS = int(open('rows.txt').read())\ndef get_inputs():\n    return [torch.ones(ROWS)]\n"
    )
    monkeypatch.chdir(tmp_path)
    side = parse_side("reads.py")
    # where a worker starts
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert make_batch(side, {}, 0)["0"].shape == (3,)
