"""Ask for what a match has to know, in processes of their own. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from phasewise.analyse.floor import find_floor
from phasewise.judge.pool import count_batches
from phasewise.match.known import Base, BaseRequest, Candidate, CandidateRequest
from phasewise.match.plan import ARMS, CASE, TIMEOUT_S, name_paths
from phasewise.match.side import Side
from phasewise.records.base import Bytes, Scalar
from phasewise.records.errors import UserError
from phasewise.records.judgement import Best
from phasewise.records.machine import Machine
from phasewise.records.prepare import CaseWork
from phasewise.records.verdict import Failure, Reason
from phasewise.workers.enclosure import Enclosure
from phasewise.workers.isolated import Isolated, run_isolated
from phasewise.workers.oom import count_free_bytes

PROBE = "phasewise.match.probe"
# dtypes of the reference, of which the first that the base can do is taken; "" is that of its inputs
DTYPES = ("float64", "float32", "")


def ask_base(side: Side, overrides: Mapping[str, Scalar], start: Path, device: str) -> Base | Failure:
    """What is known of the base; a failure where it does not fit into memory in any dtype, or its batches do not.

    :raises UserError: it can't be called
    """
    for first in range(len(DTYPES)):
        request = BaseRequest(
            side=side, overrides=dict(overrides), start=str(start), device=device, dtypes=DTYPES[first:]
        )
        # a base that takes too much is to fail by itself, before the kernel ends other processes for it
        cap = count_free_bytes() if device == "cpu" else None
        found = _ask("probe_base", msgspec.to_builtins(request), memory_bytes=cap)
        if not isinstance(found, Failure):
            base = msgspec.convert(found, Base)
            return _find_shortage(base) or base
        if found.reason is not Reason.OUT_OF_MEMORY:
            raise UserError(f"judge: the base can't be run ({found.message})")
    return found


class CandidateProcess:
    """The candidate in a process of its own. Its module, which may run a compiler, is imported while others work."""

    def __init__(self, side: Side, enclosure: Enclosure | None) -> None:
        self._side = side
        self._process = Isolated(environment=name_paths(), timeout_s=TIMEOUT_S, enclosure=enclosure)
        self._process.begin(f"{PROBE}:import_candidate", msgspec.to_builtins(side))

    @cached_property
    def imported(self) -> Failure | None:
        """Why its module can't be imported.

        :raises UserError: it does not exist
        """
        return _refuse_missing(self._process.finish())

    def find_early_failure(self) -> Failure | None:
        """Why its module can't be imported, if that is known already; raises as `imported` does."""
        return self.imported if "imported" in vars(self) or self._process.is_done() else None

    def ask(self, start: Path) -> Candidate | Failure:
        """What is known of it, built from what is kept in `start`; a failure where it can't be built. Raises as `imported` does."""
        if self.imported is not None:
            return self.imported
        self._process.begin(
            f"{PROBE}:probe_candidate", msgspec.to_builtins(CandidateRequest(side=self._side, start=str(start)))
        )
        found = _refuse_missing(self._process.finish())
        return found if isinstance(found, Failure) else msgspec.convert(found, Candidate)

    def close(self) -> None:
        """End its process."""
        self._process.close()


def _refuse_missing(found: Any | Failure) -> Any | Failure:
    if isinstance(found, Failure) and found.reason is Reason.BAD_PROGRAM:
        raise UserError(f"judge: {found.message}")
    return found


def find_best(base: Base, device: str) -> Best | None:
    """The least time of a call at the rates that the machine reaches now; None where these can't be measured."""
    found = _ask("measure_machine", device)
    if isinstance(found, Failure):
        return None
    dtype = next(iter(base.results.values()))
    work = CaseWork(
        case=CASE,
        items=1.0,
        flops=base.flops,
        bytes=float(base.bytes),
        working_set_bytes=float(base.bytes),
        dtype=dtype,
    )
    floor = find_floor(work, msgspec.convert(found, Machine))
    if floor is None:
        return None
    return Best(seconds=floor.seconds, bound=floor.kind, flops=base.flops, bytes=float(base.bytes))


def _ask(function: str, payload: Any, memory_bytes: int | None = None) -> Any | Failure:
    return run_isolated(
        f"{PROBE}:{function}", payload, environment=name_paths(), timeout_s=TIMEOUT_S, memory_bytes=memory_bytes
    )


def _find_shortage(base: Base) -> Failure | None:
    """Why the host can't hold a match; None where the least that it takes is free."""
    batches = count_batches(base.batch_bytes)
    # a batch lies in the parent's file, with the judge and in each arm; a result in a file of each arm and with the judge, which has
    # what is right in float64
    needed = (2 + len(ARMS)) * batches * base.batch_bytes + (len(ARMS) + 1 + 2 * batches) * base.result_bytes
    free = count_free_bytes()
    if needed <= free:
        return None
    return Failure(
        reason=Reason.OUT_OF_MEMORY,
        message=f"{batches} batches of {_tell(base.batch_bytes)} with results of {_tell(base.result_bytes)}, in the hands of the judge "
        f"and of {len(ARMS)} processes at once, take at least {_tell(needed)} of the host's memory, of which {_tell(free)} are free",
    )


def _tell(size: Bytes) -> str:
    return f"{size / 1e9:.3g} GB"
