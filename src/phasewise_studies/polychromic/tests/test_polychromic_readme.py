"""Every command of the README, as it stands there, one after the other, with a tiny model on a CPU."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers (pip install transformers)")

from phasewise_studies.polychromic.tests.commands import SMALL
from phasewise_studies.polychromic.tests.tiny_model import write_examples
from phasewise_studies.testing import RIGHT

README = Path(__file__).parents[1] / "README.md"
ROOT = Path(__file__).parents[4]
# it takes the whole machine
MEASURES = "phasewise try"
# small settings for what is slow at a user's, by a word of the command; a later option takes the place of an earlier one
SMALLER = {
    " run ": (*SMALL, "--steps", "3"),
    " evaluate ": ("--device", "cpu"),
    "generate.py": ("--tokens", "4"),
    "python_help.py": ("--texts-only",),
    "decode_llama.py": ("--tokens", "6", "--replies", "2"),
}
PRINTED = {
    " run ": "step 3: loss", " evaluate ": "after: loss", " export ": "next_token.pt2", "generate.py": "", "python_help.py": "held.jsonl",
    "decode_llama.py": "greedy: 2 of 2", MEASURES: "17-fused-decode",
}  # fmt: skip


def read_commands() -> list[str]:
    (block,) = re.findall(r"```sh\n(.*?)```", README.read_text(), re.DOTALL)
    return [line.split("  #")[0].strip() for line in block.splitlines() if line.strip()]


@pytest.fixture
def run_command(given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Run a command of the README at small settings; the word that it was known by."""
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    write_examples(tmp_path / "held.jsonl")
    places = {
        "MODEL": given[1], "DATA.jsonl": given[3], "HELD.jsonl": str(tmp_path / "held.jsonl"), "OUT": str(tmp_path / "out"),
        "EXPORT": str(tmp_path / "export"), "EXPORT/generate.py": str(tmp_path / "export" / "generate.py"),
        "FOLDER": str(tmp_path / "help"), "...": "the cat", "python": sys.executable,
    }  # fmt: skip

    def run(command: str) -> str:
        (kind,) = (word for word in PRINTED if word in command)
        words = [places.get(word, word) for word in shlex.split(command)] + list(SMALLER.get(kind, ()))
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode in (RIGHT if kind == MEASURES else (0,)), (
            command,
            done.stdout[-2000:],
            done.stderr[-2000:],
        )
        assert PRINTED[kind] in done.stdout + done.stderr, (command, done.stdout)
        return kind

    return run


@pytest.mark.slow
def test_every_command_of_the_readme_runs(run_command) -> None:
    seen = {run_command(command) for command in read_commands() if MEASURES not in command}
    assert seen == PRINTED.keys() - {MEASURES}


@pytest.mark.slow
def test_the_command_that_measures_runs_too(run_command) -> None:
    (command,) = (command for command in read_commands() if MEASURES in command)
    run_command(command)
