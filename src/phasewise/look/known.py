"""What the script's process is asked, and what it tells. Imports no torch."""

from __future__ import annotations

import msgspec

from phasewise.records.base import Bytes, Scalar, Seconds
from phasewise.records.verdict import Failure

# files in the folder of a look
REQUEST, SEEN, TRACE = "request.json", "seen.json", "trace.json"
# what may be called a step, besides the name of a function
AUTO, OPTIMIZER, CALL = "auto", "optimizer", "call"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the script's process."""

    # the script: one of both is ""
    path: str
    module: str
    arguments: tuple[str, ...]
    # AUTO, OPTIMIZER, CALL, a function of the script, or package.module:function
    step: str
    # steps that are left out; None: until it is warm
    warmup: int | None
    # steps that are timed, and as many that are traced; None: the fewer the longer they take
    steps: int | None
    # where it tells what it saw
    folder: str


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the script's process tells; the trace lies beside it where `is_complete`."""

    # whether the steps of the window were timed and traced
    is_complete: bool
    # OPTIMIZER, CALL or "function"; "" where no step was seen
    kind: str = ""
    # class of the optimizer or the module, or the function
    name: str = ""
    # whole steps that were seen, and that would have been needed
    steps: int = 0
    needed: int = 0
    # of these, left out before anything was timed
    warmup: int = 0
    # calls of modules from outside of modules
    calls: int = 0
    device: str = "cpu"
    # each untraced step, host to host; and their mean with the device waited for at both ends
    times_s: tuple[Seconds, ...] = ()
    step_s: Seconds = 0.0
    # of the device; None on a CPU
    peak_bytes: Bytes | None = None
    reserved_bytes: Bytes | None = None
    capacity_bytes: Bytes | None = None
    allocation_retries: int = 0
    # of torch.compile: places where graphs were broken, and graphs that were compiled within the window
    graph_breaks: int = 0
    recompiles: int = 0
    facts: dict[str, Scalar] = {}
    # what the script raised
    failure: Failure | None = None
    # what it ended with
    exit_status: int = 0
