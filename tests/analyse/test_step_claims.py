"""No second of a step belongs to two findings, and together they never hold more than the step."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_profile import GEMM, OPERATORS, OTHER, evidence, judge, profile

from phasewise.analyse.claims import PARTS, Ask, Pools, allocate, estimate_gain, make_pools
from phasewise.analyse.diagnose import diagnose
from phasewise.records.profile import Breakdown, Count, Kernel, Probe

replace = msgspec.structs.replace
PART = st.floats(min_value=0.0, max_value=1.0)
POOL = st.sampled_from([*PARTS, "kernel", "kernel:0", "kernel:1"])
ASKS = st.lists(
    st.lists(st.builds(Ask, pool=POOL, seconds=PART, least=st.just(0.2), most=st.just(0.9)), max_size=4), max_size=8
)


@given(st.fixed_dictionaries(dict.fromkeys(PARTS, PART)), st.tuples(PART, PART), ASKS)
@settings(max_examples=150, deadline=None)
def test_claims_never_exceed_the_step(
    parts: dict[str, float], kernels: tuple[float, float], wanted: list[list[Ask]]
) -> None:
    step = sum(parts.values()) + sum(kernels)
    pools = Pools(step_s=step, parts=parts, kernels=kernels)
    granted = allocate(pools, wanted)
    assert all(seconds >= 0.0 for seconds in granted)
    assert sum(granted) <= step + 1e-9
    for asks, seconds in zip(wanted, granted, strict=True):
        assert seconds <= sum(ask.seconds for ask in asks) + 1e-9


@given(
    st.tuples(*[st.integers(0, 5_000_000).map(lambda ns: ns * 1e-9)] * 7),
    st.floats(1e-3, 2e-2),
    st.integers(0, 400),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_findings_of_any_trace_hold_at_most_the_measured_step(
    parts: tuple[float, ...], step_s: float, count: int, is_cuda: bool
) -> None:
    from synthetic_profile import CPU, GPU

    names = ("kernel_s", "launch_gap_s", "sync_wait_s", "copy_s", "communication_s", "input_s", "host_s")
    breakdown = Breakdown(wall_s=sum(parts), **dict(zip(names, parts, strict=True)))
    kernels = (
        GEMM,
        OTHER,
        Kernel(name="add", calls=count + 1, seconds=3e-3, category="elementwise", grid=(4,), occupancy=0.1),
    )
    tally = Count(
        launches=count,
        synchronisations=count,
        host_to_device=2,
        pageable_copies=1,
        serial_repeats=count,
        graph_breaks=1,
    )
    found = diagnose(
        evidence(
            profile(breakdown=breakdown, kernels=kernels, operators=OPERATORS, count=tally),
            GPU if is_cuda else CPU,
            step_s=step_s,
        )
    )
    assert sum(finding.seconds for finding in found) <= step_s * (1 + 1e-9)
    assert all(finding.seconds == 0.0 for finding in found if finding.outcome != "found")


def test_the_first_finding_takes_what_both_want() -> None:
    pools = Pools(step_s=1.0, parts=dict.fromkeys(PARTS, 0.0) | {"launch_gap": 0.6}, kernels=(0.4,))
    ask = Ask(pool="launch_gap", seconds=0.5, least=0.0, most=1.0)
    assert allocate(pools, [[ask], [ask]]) == pytest.approx([0.5, 0.1])


def test_the_profiler_lengthens_the_host_and_not_the_kernels() -> None:
    traced = Breakdown(wall_s=10.0, kernel_s=4.0, launch_gap_s=4.0, host_s=2.0)
    pools = make_pools(traced, [Kernel(name="k", calls=1, seconds=4.0, category="gemm")], 7.0, cuda=True)
    assert pools.of("kernel") == pytest.approx(4.0)
    assert pools.parts["launch_gap"] == pytest.approx(2.0)
    assert pools.parts["host"] == pytest.approx(1.0)


def test_kernels_longer_than_the_measured_step_shrink_with_the_rest() -> None:
    traced = Breakdown(wall_s=10.0, kernel_s=8.0, host_s=2.0)
    pools = make_pools(traced, [], 5.0, cuda=True)
    assert pools.of("kernel") + sum(pools.parts.values()) == pytest.approx(5.0)


def test_kernels_side_by_side_share_the_time_they_took_together() -> None:
    rows = [Kernel(name=name, calls=1, seconds=3.0, category="gemm") for name in "ab"]
    pools = make_pools(Breakdown(wall_s=4.0, kernel_s=4.0), rows, None, cuda=True)
    assert pools.kernels == pytest.approx((2.0, 2.0, 0.0))


def test_kernels_that_the_profile_does_not_name_stay_unnamed() -> None:
    rows = [Kernel(name="a", calls=1, seconds=3.0, category="gemm")]
    pools = make_pools(Breakdown(wall_s=4.0, kernel_s=4.0), rows, None, cuda=True)
    assert pools.kernels == pytest.approx((3.0, 1.0))


def test_a_gain_is_bounded_by_what_its_pool_holds_and_by_the_floor() -> None:
    pools = Pools(step_s=1.0, parts=dict.fromkeys(PARTS, 0.0) | {"host": 0.5}, kernels=(0.5,))
    ask = [Ask(pool="host", seconds=9.0, least=0.5, most=1.0)]
    gain = estimate_gain(pools, ask)
    assert gain is not None and (gain.low, gain.high) == pytest.approx((1 / 0.75, 2.0))
    floored = estimate_gain(pools, ask, least_left_s=0.8)
    assert floored is not None and floored.high == pytest.approx(1.25)
    assert estimate_gain(pools, []) is None


def test_a_probe_speaks_before_the_model() -> None:
    add = Kernel(name="add", calls=20, seconds=4e-3, category="elementwise", grid=(264,))
    probe = Probe(finding="fusible-chain", what="chains in one pass", now_s=1e-4, then_s=0.5e-4, calls=20)
    plain = judge("fusible-chain", profile(kernels=(add, OTHER)))
    probed = judge("fusible-chain", profile(kernels=(add, OTHER), probes=(probe,)))
    assert (plain.basis, probed.basis) == ("critical-path", "probe")
    assert probed.gain is not None
    # half of what was probed, 2 ms, at least; half of all 4 ms at most, each with the spread of a probe
    assert (probed.gain.low, probed.gain.high) == pytest.approx((10 / (10 - 0.8), 10 / (10 - 2.2)), rel=1e-3)


def test_two_alternatives_of_one_product_are_not_added() -> None:
    product = replace(GEMM, tensor_core=False)
    probes = tuple(
        Probe(finding="matmul-in-fp32", what=f"aten::mm a b in {kind}", now_s=1e-3, then_s=then, calls=4)
        for kind, then in (("tf32", 0.5e-3), ("bfloat16", 0.25e-3))
    )
    found = judge("matmul-in-fp32", profile(kernels=(product, OTHER), probes=probes))
    assert found.gain is not None
    assert (found.gain.low, found.gain.high) == pytest.approx((10 / (10 - 0.8 * 2), 10 / (10 - 1.1 * 3)), rel=1e-3)


def test_copies_and_collectives_are_no_kernels() -> None:
    rows = (
        Kernel(name="Memcpy HtoD (Pinned -> Device)", calls=1, seconds=2e-3, category="copy"),
        Kernel(name="ncclDevKernel_AllReduce", calls=1, seconds=3e-3, category="communication"),
        Kernel(name="direct_copy_kernel", calls=1, seconds=1e-3, category="copy"),
    )
    parts = Breakdown(wall_s=6e-3, kernel_s=1e-3, copy_s=2e-3, communication_s=3e-3)
    assert make_pools(parts, rows, None, cuda=True).kernels == pytest.approx((0.0, 0.0, 1e-3, 0.0))
