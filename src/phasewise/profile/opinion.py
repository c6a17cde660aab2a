"""A second opinion: the same trace as torch-tb-profiler reads it, through an adapter, never required.

Version 0.4.3 (the last) expects names of categories that torch has since changed, and then reads no runtime, no data loading and
too short steps without a word; the adapter gives it the old names. Its tensor-core list ends before Hopper and is not used.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from phasewise.profile.intervals import length, merge
from phasewise.profile.timeline import LOADER, Frame, is_communication
from phasewise.profile.trace import CALLS, KERNEL, Trace
from phasewise.records.profile import SecondOpinion

PACKAGE = "torch-tb-profiler"
MICRO = 1e-6
# pure Python: about 10 s for so many events
MOST_EVENTS = 60_000
OLD_NAMES = {**dict.fromkeys(CALLS, "Runtime"), "fwdbwd": "forward_backward"}


def ask_second_opinion(plain: Mapping[str, Any], trace: Trace, frames: Sequence[Frame]) -> SecondOpinion:
    """Mean seconds by part over the steps that torch-tb-profiler reads, with its disagreement about kernel time."""
    try:
        version = importlib.metadata.version(PACKAGE)
        from torch_tb_profiler.profiler.data import RunProfileData
        from torch_tb_profiler.profiler.event_parser import ProfileRole
    except ImportError:
        return SecondOpinion(available=False, reason="torch-tb-profiler is not installed")
    if not frames:
        return SecondOpinion(available=False, reason="the trace has no steps", version=version)
    if len(plain["traceEvents"]) > MOST_EVENTS:
        reason = f"the trace has {len(plain['traceEvents'])} events, torch-tb-profiler is asked up to {MOST_EVENTS}"
        return SecondOpinion(available=False, reason=reason, version=version)
    logging.getLogger("pytorch_profiler").setLevel(logging.CRITICAL)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            found = RunProfileData.from_json("worker", None, translate(plain))
        # what its parsers raise on traces that they do not understand
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError, RuntimeError) as error:
            reason = f"torch-tb-profiler cannot read this trace ({type(error).__name__}: {error})"
            return SecondOpinion(available=False, reason=reason, version=version)
    names = list(found.steps_names or ())
    if not names or found.avg_costs is None:
        return SecondOpinion(available=False, reason="torch-tb-profiler found no steps", version=version)
    parts = {
        role.name: float(found.avg_costs.costs[role]) * MICRO
        for role in ProfileRole
        if role < len(found.avg_costs.costs)
    }
    ours = _kernel_seconds(trace, frames, {str(name) for name in names})
    return SecondOpinion(
        available=True, version=version, parts=parts, disagreement=_disagree(parts.get("Kernel", 0.0), ours)
    )


def translate(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The trace under the names of 2021; annotations on the device go, since they would count steps twice."""
    events = []
    for event in plain["traceEvents"]:
        category = event.get("cat")
        if category == "gpu_user_annotation":
            continue
        if category in OLD_NAMES:
            event = {**event, "cat": OLD_NAMES[category]}
        elif category == "user_annotation" and str(event.get("name", "")).startswith(LOADER):
            event = {**event, "cat": "cpu_op"}
        events.append(event)
    return {**plain, "traceEvents": events}


def _kernel_seconds(trace: Trace, frames: Sequence[Frame], names: set[str]) -> float:
    """Our mean kernel time over the steps that the other counted, with what it calls a kernel: none on a CPU."""
    # it may have left out the last steps, and it names them by number
    counted = [frame for frame in frames if frame.step.name.partition("#")[2] in names or frame.step.name in names]
    if not trace.has_device or not counted:
        return 0.0
    busy = sum(
        length(
            merge(event.interval for event in frame.work if event.category == KERNEL and not is_communication(event))
        )
        for frame in counted
    )
    return busy / len(counted) * 1e-9


def _disagree(theirs: float, ours: float) -> float:
    """Relative difference, 0 where both saw nothing."""
    largest = max(theirs, ours)
    return abs(theirs - ours) / largest if largest else 0.0
