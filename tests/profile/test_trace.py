import gzip
import json

import pytest
from traces import copy, kernel, make_trace, memory, operator, region

from phasewise.profile.trace import decode_trace, parse_trace


def test_events_are_sorted_by_what_they_are_and_a_kernel_knows_its_launch():
    trace = parse_trace(
        make_trace(
            kernel("gemm", 10, 20, launched=3), copy("HtoD (Pinned -> Device)", 1, 2), operator("aten::mm", 0, 8),
            region("forward", 0, 9), memory(4, 512, 512),
        )
    )  # fmt: skip
    assert [event.name for event in trace.device] == ["Memcpy HtoD (Pinned -> Device)", "gemm"]
    assert trace.launch_of(trace.device[1]).start == 3000
    assert trace.launch_of(trace.device[0]) is None
    assert [event.name for event in trace.annotations] == ["forward"]
    assert [event.args["Bytes"] for event in trace.memory] == [512]
    assert [step.name for step in trace.steps] == ["ProfilerStep#1"]


def test_names_of_categories_of_older_traces_are_understood():
    plain = make_trace(kernel("gemm", 10, 20, launched=3))
    for event in plain["traceEvents"]:
        event["cat"] = {"kernel": "Kernel", "cuda_runtime": "runtime"}.get(event["cat"], event["cat"])
    trace = parse_trace(plain)
    assert trace.launch_of(trace.device[0]).name == "cudaLaunchKernel"


def test_events_without_a_time_or_of_foreign_kinds_are_left_out():
    plain = make_trace(operator("aten::mm", 0, 8))
    plain["traceEvents"] += [
        {"ph": "X", "cat": "kernel", "name": "no time"},
        {"ph": "M", "name": "process_name"},
        "text",
        None,
    ]
    trace = parse_trace(plain)
    assert len(trace.operators) == 1
    assert trace.device == ()
    assert not trace.has_device


def test_a_trace_is_read_packed_or_plain_even_with_control_characters():
    plain = make_trace(operator("aten::mm", 0, 8))
    text = json.dumps(plain).replace("aten::mm", "aten::m\tm").encode() + b" "
    assert decode_trace(text) == decode_trace(gzip.compress(text))


def test_what_is_no_trace_is_refused_by_name():
    with pytest.raises(ValueError, match="traceEvents"):
        parse_trace({"schemaVersion": 1})
