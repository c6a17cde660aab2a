"""Environments of the ranks of a process group."""

from __future__ import annotations

import socket

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
