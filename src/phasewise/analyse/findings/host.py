"""What the host does while the device waits: input, synchronisation, launches."""

from __future__ import annotations

from phasewise.analyse.claims import Ask
from phasewise.analyse.evidence import Evidence, Judgement, absent, abstain, count, per_cent, seconds

# torch-tb-profiler and XProf both call an input pipeline slow from 5 % of the step on
INPUT_SHARE = 0.05
# below this share of the step a wait is not worth a change; HTA and nsys-ai use 5 to 10 %
WAIT_SHARE = 0.05
# the gain of CUDA graphs vanishes where the device idles less than this: spikingjelly#740 (5.1x at batch 8, 1.01x at 96),
# TraceLens asks for 15 %
IDLE_SHARE = 0.10
# Python, dispatcher and autograd take the host up to so many times what a launch takes it by itself (6 to 7 in an encoder of
# transformers on an H100); what the device waits longer is other work of the host, which no graph takes away
EAGER = 10.0


def find_input_bound(evidence: Evidence) -> Judgement:
    """The step waits for its input.

    What it sees: the part of the step that places or loads the batch and during which the device does nothing.
    Why it costs: the next step can't begin before its data is there, however fast the kernels are.
    Threshold and its source: 5 % of the step, where torch-tb-profiler and XProf begin to call an input pipeline slow.
    Advice: prepare the next batch while this one runs (workers, pinned memory, a stream of its own), or keep it on the device.
    """
    if reason := evidence.lacks("breakdown"):
        return abstain(reason)
    waiting = evidence.time.parts["input"]
    share = evidence.share(waiting)
    if share < INPUT_SHARE:
        return absent(INPUT_SHARE, share=per_cent(share))
    return Judgement(
        outcome="found",
        # overlap hides all of it only if the rest of the step is longer
        asks=(Ask(pool="input", seconds=waiting, least=0.5, most=1.0),),
        observed={"share": per_cent(share), "waiting": seconds(waiting)},
        threshold=INPUT_SHARE,
        evidence=(f"{100 * share:.0f} % of the step is spent on placing its input",),
        advice="Place the next batch while this one runs: pinned memory and a copy stream, or keep the inputs on the device.",
    )


def find_host_sync(evidence: Evidence) -> Judgement:
    """The host waits for the device within the step.

    What it sees: synchronising calls in the step (`.item()`, `.cpu()`, `nonzero`, `if tensor:`) and the time for which neither
    kernels run nor work is queued because of them.
    Why it costs: while the host waits it queues nothing, so the device idles from the end of the wait to the next launch.
    Threshold and its source: one synchronisation a step and 5 % of the step; nsys-ai and TraceLens report from 5 % on.
    Advice: keep the decision on the device (`torch.where`, masks, counters in a tensor) and read results once, after the step.
    """
    if reason := evidence.lacks("cuda", "breakdown"):
        return abstain(reason)
    calls = evidence.trace.count.synchronisations
    peaks = evidence.machine.peaks
    # after each wait the queue is empty: a round trip of the host is idle too
    refill = calls * (peaks.sync_s or 0.0) if peaks is not None else 0.0
    waiting = evidence.time.parts["sync_wait"]
    idle = min(refill, evidence.time.parts["launch_gap"])
    share = evidence.share(waiting + idle)
    if calls < 1 or share < WAIT_SHARE:
        return absent(WAIT_SHARE, synchronisations=count(calls), share=per_cent(share))
    return Judgement(
        outcome="found",
        asks=(
            Ask(pool="sync_wait", seconds=waiting, least=0.5, most=1.0),
            Ask(pool="launch_gap", seconds=idle, least=0.0, most=1.0),
        ),
        observed={"synchronisations": count(calls), "share": per_cent(share)},
        threshold=WAIT_SHARE,
        evidence=(f"{calls:g} synchronisations a step hold {100 * share:.0f} % of it",),
        advice="Keep the decision on the device (torch.where, masks) and read results once, after the step.",
    )


def find_launch_gaps(evidence: Evidence) -> Judgement:
    """The device waits for the next launch.

    What it sees: time in the step during which no kernel, copy or collective runs because the host has not launched one yet.
    Why it costs: an eager launch costs the host some microseconds, more than a small kernel takes.
    Threshold and its source: 10 % of the step idle; below that CUDA graphs gain nothing (spikingjelly#740: 5.1x at batch 8,
    1.01x at batch 96), and TraceLens asks for 15 %.
    Advice: capture the step as a CUDA graph or compile it with mode="reduce-overhead"; or do more work a launch.
    """
    if reason := evidence.lacks("cuda", "breakdown"):
        return abstain(reason)
    tally = evidence.trace.count
    # a step that is captured only in part still launches kernels one by one
    is_traced = evidence.trace.attributed_by == "trace" and tally.launches > tally.graph_launches
    if evidence.trace.graph_replay and not is_traced:
        return abstain(
            "the step is replayed as a CUDA graph already; gaps between its nodes can't be told from its kernels"
        )
    gap, host = evidence.time.parts["launch_gap"], evidence.time.parts["host"]
    waiting, launches, peaks = evidence.share(gap + host), tally.launches, evidence.machine.peaks
    if peaks is not None and peaks.launch_s is not None:
        host = min(host, max(0.0, launches * EAGER * peaks.launch_s - gap))
    idle = gap + host
    share = evidence.share(idle)
    if share < IDLE_SHARE:
        return absent(IDLE_SHARE, idle=per_cent(share), launches=count(launches))
    explained = f", which explain at most {100 * share:.0f} %" if share < waiting else ""
    # what remains in a replay: a node of the graph for each launch
    nodes = launches * (peaks.graph_node_s or 0.0) if peaks is not None else 0.0
    most = max(0.0, 1.0 - nodes / idle)
    return Judgement(
        outcome="found",
        asks=(
            Ask(pool="launch_gap", seconds=gap, least=min(0.8, most), most=most),
            # host work outside the captured region stays
            Ask(pool="host", seconds=host, least=0.0, most=most),
        ),
        observed={"idle": per_cent(share), "launches": count(launches)},
        threshold=IDLE_SHARE,
        evidence=(
            f"the device is idle for {100 * waiting:.0f} % of the step; launches a step: {launches:g}{explained}",
        ),
        advice="Capture the step as a CUDA graph (or torch.compile with mode='reduce-overhead'), or do more work a launch.",
    )


def find_exposed_communication(evidence: Evidence) -> Judgement:
    """Ranks wait for each other.

    What it sees: collectives that run while nothing else does.
    Why it costs: a transfer that no computation hides lengthens the step by its whole time.
    Threshold and its source: 5 % of the step (TraceLens; torch-tb-profiler warns from 10 % of it on).
    Advice: begin reductions as soon as a gradient is there, in larger buckets, in bfloat16, or accumulate over more micro-steps.
    """
    if reason := evidence.lacks("breakdown"):
        return abstain(reason)
    exposed = evidence.time.parts["communication"]
    share = evidence.share(exposed)
    if share < WAIT_SHARE:
        return absent(WAIT_SHARE, share=per_cent(share))
    return Judgement(
        outcome="found",
        asks=(Ask(pool="communication", seconds=exposed, least=0.25, most=1.0),),
        observed={"share": per_cent(share), "exposed": seconds(exposed)},
        threshold=WAIT_SHARE,
        evidence=(f"collectives that nothing hides take {100 * share:.0f} % of the step",),
        advice="Overlap the reduction with the backward pass, reduce in larger buckets or in bfloat16, or accumulate longer.",
    )
