"""A function called by every rank of a process group, each in a process of its own."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phasewise.records.verdict import Failure
from phasewise.workers.failure import ProcessFailed, is_kill, repeat_if_killed
from phasewise.workers.process import Process, receive_all

ADDRESS = "127.0.0.1"


def rank_environments(ranks: int) -> list[dict[str, str]]:
    """Variables of each rank of one host; a process alone gets none."""
    if ranks == 1:
        return [{}]
    common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": ADDRESS, "MASTER_PORT": str(_free_port())}
    return [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def _free_port() -> int:
    """A port that nothing listens on now; rank 0 takes it a moment later."""
    with socket.socket() as server:
        server.bind((ADDRESS, 0))
        return int(server.getsockname()[1])


def run_group(
    target: str, payload: Any, *, ranks: int, environment: Mapping[str, str], timeout_s: float, folder: Path
) -> Any | Failure:
    """`target(payload)` in `ranks` processes at once: the first rank's result, or why one of them has none.

    If one was killed from outside, all are started again.
    """

    def call(number: int) -> Any | Failure:
        return _call(target, payload, ranks, environment, timeout_s, folder)

    return repeat_if_killed(call, is_kill)


def _call(
    target: str, payload: Any, ranks: int, environment: Mapping[str, str], timeout_s: float, folder: Path
) -> Any | Failure:
    processes = [Process(environment={**environment, **one}, folder=folder) for one in rank_environments(ranks)]
    try:
        for process in processes:
            process.send("call", target=target, payload=payload, memory_bytes=None)
        return _first_wrong(receive_all(processes, target.rpartition(":")[2].removesuffix("_plain"), timeout_s))
    except ProcessFailed as died:
        return died.failure
    finally:
        for process in processes:
            process.close()


def _first_wrong(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The record of the first rank that failed, else of the first rank."""
    return next((record for record in records if record["outcome"] == "fail"), records[0])
