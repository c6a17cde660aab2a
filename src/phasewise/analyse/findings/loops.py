"""What the program makes the interpreter and the allocator do over and over."""

from __future__ import annotations

from phasewise.analyse.claims import KERNEL, Ask
from phasewise.analyse.evidence import Evidence, Judgement, absent, abstain, count, per_cent
from phasewise.analyse.findings.kernels import SHORT_S
from phasewise.records.base import Seconds
from phasewise.records.profile import Kernel, Operator

# TorchTidy reports indexing in a loop from ten repeats on
LOOP_REPEATS = 10
# and it has to matter
LOOP_SHARE = 0.10
# an operator belongs to a loop of n passes if it is called about n times or more
LOOP_CALLS = 0.9
# calls that a batched form needs besides its own: stacking inputs, splitting results
LAYOUT_CALLS = 8
# HTA calls a share of 5 % of the step worth a look
CHURN_SHARE = 0.05
ALLOCATING = (
    "aten::empty",
    "aten::new_empty",
    "aten::resize",
    "aten::zeros",
    "aten::new_zeros",
    "cudaMalloc",
    "cudaFree",
)
# a graph in n pieces is entered n times; one break a step is already one entry too many
BREAKS = 1
CONSTANTS = ("aten::arange", "aten::linspace", "aten::eye", "aten::ones", "aten::full", "aten::tril", "aten::triu")
# counts of different authors differ by a few per cent; half as much again is a whole pass too many
REPEATED = 1.5


def find_serial_loop(evidence: Evidence) -> Judgement:
    """A Python loop does one item at a time.

    What it sees: one operator called again and again from one place, and the operators that are called with it; their
    kernels too, unless the step replays graphs.
    Why it costs: each pass pays for the interpreter, the dispatcher and a launch, and uses a sliver of the device.
    Threshold and its source: ten repeats (TorchTidy's loop pattern) that hold 10 % of the step.
    Advice: work on all items at once (batch dimension, scan, one kernel that loops inside), or compile the loop away.
    """
    if reason := evidence.lacks("breakdown", "operators"):
        return abstain(reason)
    repeats, name = evidence.trace.count.serial_repeats, evidence.trace.count.serial_operator
    if repeats < LOOP_REPEATS:
        return absent(LOOP_REPEATS, repeats=count(repeats))
    looped = [operator for operator in evidence.trace.operators if operator.calls >= LOOP_CALLS * repeats]
    host_share = _share([operator.self_s for operator in looped], [op.self_s for op in evidence.trace.operators])
    # the kernels of a replayed graph are launched by no loop of the host, and are not told from others
    replays = evidence.trace.graph_replay
    kernels = [] if replays else evidence.rows(lambda kernel: kernel.calls >= LOOP_CALLS * repeats)
    # one pass of n stays; of the host's work a few calls more, to lay out the batch
    most, host = 1.0 - 1.0 / repeats, max(0.0, 1.0 - LAYOUT_CALLS / repeats)
    asks = [
        # a short kernel is mostly start and end, a long one may do useful work already
        Ask(pool=f"{KERNEL}:{i}", seconds=time, least=0.7 if row.seconds / row.calls < SHORT_S else 0.3, most=most)
        for i, row, time in kernels
    ]
    asks += [
        Ask(pool=part, seconds=host_share * evidence.time.parts[part], least=host, most=most)
        for part in ("launch_gap", "host")
    ]
    asks = _scale_to_loop(evidence, asks)
    share = evidence.share(sum(ask.seconds for ask in asks))
    if share < LOOP_SHARE:
        return absent(LOOP_SHARE, repeats=count(repeats), share=per_cent(share))
    return Judgement(
        outcome="found",
        asks=tuple(asks),
        observed={"repeats": count(repeats), "share": per_cent(share)},
        threshold=LOOP_REPEATS,
        evidence=(
            f"{name or 'one operator'} is called {repeats:g} times from one place",
            f"the loop holds {100 * share:.0f} % of the step",
        ),
        advice="Work on all items at once: a batch dimension, a scan, or one kernel that loops inside.",
    )


def _scale_to_loop(evidence: Evidence, asks: list[Ask]) -> list[Ask]:
    """On a CPU, where everything is in line, the time that the trace saw the loop take from first pass to last: operators that are
    called as often need not be of the loop.

    On a GPU the host runs ahead, so its loop may take longer than what it holds of the step.
    """
    breakdown, asked = evidence.trace.breakdown, sum(ask.seconds for ask in asks)
    spent = evidence.trace.count.serial_s
    if evidence.is_cuda or asked <= 0.0 or spent <= 0.0 or breakdown is None or breakdown.wall_s <= 0.0:
        return asks
    factor = spent / breakdown.wall_s * evidence.time.step_s / asked
    return [Ask(pool=ask.pool, seconds=factor * ask.seconds, least=ask.least, most=ask.most) for ask in asks]


def find_graph_breaks(evidence: Evidence) -> Judgement:
    """The compiler gives up in the middle of the step, or compiles again.

    What it sees: graph breaks and recompilations that torch.compile counted while the step ran.
    Why it costs: at each break the step returns to the interpreter, checks guards again and fuses nothing across it.
    Threshold and its source: one break or one recompilation a step; a program compiled whole (fullgraph=True) has none.
    Advice: compile with fullgraph=True to see the place, then replace what breaks; mark changing sizes as dynamic.
    """
    if reason := evidence.lacks("breakdown"):
        return abstain(reason)
    breaks, recompiles = evidence.trace.count.graph_breaks, evidence.trace.count.recompiles
    if breaks + recompiles < BREAKS:
        return absent(BREAKS, breaks=count(breaks), recompiles=count(recompiles))
    # one entry of the graph remains of n + 1
    gone = breaks / (breaks + 1.0)
    host = evidence.time.parts["host"]
    if not evidence.is_cuda and host == 0.0:
        return abstain("the trace does not tell the host's time from the operators'")
    return Judgement(
        outcome="found",
        asks=(
            Ask(pool="host", seconds=host * (gone if recompiles < BREAKS else 1.0), least=0.2, most=1.0),
            Ask(pool="launch_gap", seconds=gone * evidence.time.parts["launch_gap"], least=0.0, most=0.8),
        ),
        observed={"breaks": count(breaks), "recompiles": count(recompiles)},
        threshold=BREAKS,
        evidence=(f"{breaks:g} graph breaks and {recompiles:g} recompilations a step",),
        advice="Compile with fullgraph=True to find the place, replace what breaks, and mark sizes that change as dynamic.",
    )


def find_allocator_churn(evidence: Evidence) -> Judgement:
    """The step spends its time on getting memory.

    What it sees: operators that only allocate, and allocations that had to be tried again after freeing cached blocks.
    Why it costs: a retry frees blocks with a device synchronisation; on a CPU fresh pages are zeroed by the system.
    Threshold and its source: 5 % of the step, or one retry a step (a retry waits for the device to be idle).
    Advice: allocate once and write into it (out=, preallocated buffers), or set expandable segments for the allocator.
    """
    if reason := evidence.lacks("breakdown", "operators"):
        return abstain(reason)
    operators = evidence.trace.operators
    churning = [operator for operator in operators if operator.name.startswith(ALLOCATING)]
    host_share = _share([operator.self_s for operator in churning], [operator.self_s for operator in operators])
    rows = evidence.rows(lambda kernel: kernel.name.startswith(ALLOCATING))
    asks = [Ask(pool=f"{KERNEL}:{index}", seconds=time, least=0.3, most=1.0) for index, _, time in rows]
    asks.append(Ask(pool="host", seconds=host_share * evidence.time.parts["host"], least=0.2, most=0.9))
    share = evidence.share(sum(ask.seconds for ask in asks))
    retries = evidence.trace.count.allocation_retries
    calls = sum(operator.calls for operator in churning)
    if share < CHURN_SHARE and retries < 1:
        return absent(CHURN_SHARE, share=per_cent(share), retries=count(retries))
    return Judgement(
        outcome="found",
        asks=tuple(asks),
        observed={"share": per_cent(share), "retries": count(retries), "allocations": count(calls)},
        threshold=CHURN_SHARE,
        evidence=(f"{calls:g} allocating operators a step hold {100 * share:.0f} % of it, with {retries:g} retries",),
        advice="Allocate once and write into it (out=, preallocated buffers), or give the allocator expandable segments.",
    )


def find_repeated_work(evidence: Evidence) -> Judgement:
    """The step computes more than it has to.

    What it sees: calls whose result an earlier call of the step had computed from the same unchanged tensors; the operations
    counted in matrix products and convolutions against those that the workload declares as necessary; and constants (arange,
    linspace, eye, masks) that are built anew in each step.
    Why it costs: what is computed twice takes twice the time, at any efficiency.
    Threshold and its source: 5 % of the step for equal calls or for constants (HTA's bar), or 1.5 times the declared operations
    (half a pass too many).
    Advice: compute shared factors once, keep constants as buffers, and replace autograd by a closed form where there is one.
    """
    if reason := evidence.lacks("breakdown", "operators"):
        return abstain(reason)
    operators = evidence.trace.operators
    counted = [operator for operator in operators if operator.flops]
    flops = sum(operator.flops or 0.0 for operator in counted)
    declared = evidence.work.flops if evidence.work is not None else 0.0
    constants = [operator for operator in operators if operator.name.startswith(CONSTANTS)]
    constant_share = _share([op.self_s for op in constants], [op.self_s for op in operators])
    constant_asks = [
        *(Ask(pool=f"{KERNEL}:{i}", seconds=time, least=0.5, most=1.0) for i, _, time in evidence.rows(_is_constant)),
        Ask(pool="host", seconds=constant_share * evidence.time.parts["host"], least=0.3, most=1.0),
    ]
    share = evidence.share(sum(ask.seconds for ask in constant_asks))
    excess = flops / declared if declared > 0.0 else 0.0
    equal = _equal_calls(evidence)
    equal_share = evidence.share(equal)
    observed = {
        "operations": count(excess, "times declared"),
        "constants": per_cent(share),
        "equal calls": per_cent(equal_share),
    }
    if excess < REPEATED and share < CHURN_SHARE and equal_share < CHURN_SHARE:
        if not counted and declared > 0.0 and not evidence.trace.count.repeated_calls:
            return abstain("the trace counts no operations, and no constants are rebuilt")
        return absent(REPEATED, **observed)
    asks = list(constant_asks) if share >= CHURN_SHARE else []
    told = [f"constants are rebuilt for {100 * share:.0f} % of the step"] if share >= CHURN_SHARE else []
    if equal_share >= CHURN_SHARE:
        tally = evidence.trace.count
        asks.append(Ask(pool=KERNEL, seconds=equal, least=0.5, most=1.0))
        told.append(
            f"{tally.repeated_calls:g} calls, mostly {tally.repeated_operator}, recompute what was there already"
        )
    if excess >= REPEATED:
        asks += _ask_for_operations(evidence, counted, 1.0 - 1.0 / excess)
        told.append(f"the step computes {excess:.2g} times the operations that the workload declares")
    return Judgement(
        outcome="found",
        asks=tuple(asks),
        observed=observed,
        threshold=REPEATED,
        evidence=tuple(told),
        advice="Compute shared factors once, keep constants as buffers, and use a closed form where there is one.",
    )


def _is_constant(kernel: Kernel) -> bool:
    return kernel.name.startswith(CONSTANTS)


def _equal_calls(evidence: Evidence) -> Seconds:
    """Seconds of the step in calls that repeat an earlier one on the same tensors."""
    breakdown = evidence.trace.breakdown
    if breakdown is None or breakdown.wall_s <= 0.0:
        return 0.0
    return evidence.trace.count.repeated_s / breakdown.wall_s * evidence.time.step_s


def _ask_for_operations(evidence: Evidence, counted: list[Operator], gone: float) -> list[Ask]:
    """The share `gone` of the time of the operators that do the counted operations."""
    if evidence.is_cuda:
        return [Ask(pool=KERNEL, seconds=gone * evidence.device_time(counted), least=0.5, most=1.0)]
    names = {operator.name for operator in counted}
    rows = evidence.rows(lambda kernel: kernel.name in names)
    return [Ask(pool=f"{KERNEL}:{index}", seconds=gone * time, least=0.5, most=1.0) for index, _, time in rows]


def _share(parts: list[float], whole: list[float]) -> float:
    total = sum(whole)
    return sum(parts) / total if total > 0.0 else 0.0
