"""The command line of a user's training, called in this process, at a size of a tenth of a second."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from phasewise_studies.polychromic.product.train import main

SMALL = (
    "--micro", "2", "--accumulate", "1", "--tokens", "4", "--length", "16", "--prompt", "6", "--encoder", "own",
    "--save-every", "2", "--rate", "1e-3", "--device", "cpu",
)  # fmt: skip


def call(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def read_log(out: Path) -> list[dict]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in ("seconds", "components")} for line in lines]


def refuse(*arguments: str) -> str:
    """The sentence of a command that a user can cure."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2, done.output
    return done.output
