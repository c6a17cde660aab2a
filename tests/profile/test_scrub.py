import gzip
import json
import socket

import pytest
from traces import kernel, make_trace, operator, region

from phasewise.profile.scrub import machine_names, make_hider, pack_trace, scrub_trace
from phasewise.profile.trace import parse_trace

HOST = "box-17.example"


def test_names_of_the_host_and_paths_go_wherever_they_stand():
    plain = make_trace(
        kernel("gemm", 0, 9, kernel_file="/home/someone/cache/k.py"), region("load /data/sets/a/train.bin", 0, 9)
    )
    plain |= {"host_name": socket.gethostname(), "traceName": "/tmp/x/trace.json", "distributedInfo": {"rank": 0}}
    plain["traceEvents"].append({"ph": "M", "name": "process_name", "args": {"name": "/usr/bin/python3 train.py"}})
    text = json.dumps(scrub_trace(plain))
    assert "/home" not in text and "/tmp" not in text and "/usr" not in text and "/data" not in text
    assert "load train.bin" in text
    assert "host_name" not in text and "traceName" not in text and "distributedInfo" not in text


def test_a_host_or_user_name_inside_a_text_is_masked_and_only_as_a_whole_word():
    hide = make_hider({HOST: "host", "jdoe": "user"})
    assert hide(f"worker of jdoe on {HOST}") == "worker of user on host"
    assert hide("jdoesnt match") == "jdoesnt match"


def test_kernel_names_are_left_as_they_are():
    name = "void at::native::reduce_kernel<512, 1, (a/b)>(float*)"
    assert make_hider({})(name) == name


def test_common_words_are_never_masked():
    assert not {"root", "user", "host", "localhost"} & set(machine_names())


def make_large(steps=3, size=300):
    groups = [
        operator(f"aten::op{index}", index, index + 1 + index % 7, dims=[[index, 7 * index]])
        for index in range(size * steps)
    ]
    plain = make_trace(*groups, steps=[(size * index, size * (index + 1)) for index in range(steps)])
    plain["traceEvents"].append({"ph": "s", "cat": "fwdbwd", "id": 1, "name": "fwdbwd", "ts": 0})
    return plain


def test_a_small_trace_is_packed_whole_and_equal_traces_are_equal_files():
    plain = make_large()
    packed, left_out = pack_trace(plain)
    assert left_out == ()
    assert json.loads(gzip.decompress(packed)) == plain
    assert pack_trace(plain)[0] == packed


@pytest.mark.parametrize("limit", [9_000, 4_000, 1_500])
def test_a_large_trace_is_thinned_below_the_limit_and_keeps_its_first_step(limit):
    packed, left_out = pack_trace(make_large(), limit)
    assert len(packed) <= limit
    assert left_out[0] == "Python frames"
    assert parse_trace(json.loads(gzip.decompress(packed))).steps[0].name == "ProfilerStep#1"
