"""Processes of a match: started, asked, and told apart by whose failure it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phasewise.environment import name_gpus
from phasewise.records.errors import UserError
from phasewise.records.verdict import Failure, Reason
from phasewise.workers.failure import ProcessFailed
from phasewise.workers.process import Process, receive_all


class PlayerFailed(Exception):
    """The candidate could not go on."""

    def __init__(self, player: str, failure: Failure) -> None:
        super().__init__(f"{player}: {failure.message}")
        self.player = player
        self.failure = failure


def start(module: str, files: Sequence[int]) -> Process:
    """`python -m module` with these descriptors; it imports what this process can."""
    environment = {"PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}
    return Process(environment=environment, folder=Path.cwd(), fresh=True, module=module, files=files)


def ask(process: Process, command: str, timeout_s: float, **arguments: Any) -> Any:
    """The answer; raises ProcessFailed."""
    process.send(command, **arguments)
    return receive_all([process], command, timeout_s)[0]


def ask_referee(process: Process, command: str, timeout_s: float, **arguments: Any) -> Any:
    """What the referee finds of the base.

    :raises UserError: the base can't be run, which is the user's to mend
    """
    try:
        return ask(process, command, timeout_s, **arguments)
    except ProcessFailed as died:
        raise UserError(f"judge: the base can't be run ({died.failure.message})") from died


def receive(process: Process, player: str, what: str, timeout_s: float) -> Any:
    """A player's answer to what it was asked.

    :raises PlayerFailed: the candidate failed
    :raises UserError: the base failed, or a function does not exist
    """
    try:
        return receive_all([process], what, timeout_s)[0]
    except ProcessFailed as died:
        if player == "candidate" and died.failure.reason is not Reason.BAD_PROGRAM:
            raise PlayerFailed(player, died.failure) from died
        raise UserError(f"judge: {player}: {died.failure.message}") from died


def choose_device(device: str) -> str:
    """The named device; `auto` is a GPU where there is one.

    :raises UserError: there is no such device here
    """
    if device == "auto":
        return "cuda" if name_gpus() else "cpu"
    if device not in ("cpu", "cuda"):
        raise UserError(f"judge: device {device!r} is unknown; auto, cpu and cuda are allowed")
    if device == "cuda" and not name_gpus():
        raise UserError("judge: no NVIDIA GPU is found here; leave --device out, or set cpu")
    return device
