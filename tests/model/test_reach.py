"""Editing what a variant can't reach leaves its digest alone."""

from __future__ import annotations

import pytest

from phasewise.model.reach import digest_sources

PROGRAM = '''
from . import kernels, reference
from .kernels import other as second

def make_inputs(case, shape, seed):
    """Inputs."""
    return {}

def build(switches, inputs, case, shape, device):
    # a comment
    if switches.fused:
        return kernels.fast(inputs)
    if not switches.fused:
        return second if switches.mode == "x" else reference.slow
    return kernels.never()
'''
KERNELS = """
FACTOR = 3
def fast(x): return x * FACTOR
def other(x): return x
def never(): return 1
"""
REFERENCE = "def slow(x):\n    return load('kernel.cu')\n"


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    files = {
        "__init__.py": "",
        "program.py": PROGRAM,
        "kernels.py": KERNELS,
        "reference.py": REFERENCE,
        "kernel.cu": "1",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def digests(folder):
    entries = [("work.program", "build"), ("work.program", "make_inputs")]
    variants = {"fused": (True, ""), "slow": (False, ""), "second": (False, "x")}
    return {
        name: digest_sources(entries, {"fused": fused, "mode": mode}, {"work": folder})
        for name, (fused, mode) in variants.items()
    }


def changed(folder, file, old, new):
    before = digests(folder)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    after = digests(folder)
    return {name for name in before if before[name] != after[name]}


def test_comments_docstrings_and_layout_do_not_count(package):
    assert changed(package, "program.py", "# a comment", "# another") == set()
    assert changed(package, "program.py", '"""Inputs."""', '"""Other."""\n') == set()


def test_a_kernel_counts_for_the_phases_that_call_it(package):
    assert changed(package, "kernels.py", "x * FACTOR", "FACTOR * x") == {"fused"}
    assert changed(package, "kernels.py", "FACTOR = 3", "FACTOR = 4") == {"fused"}
    assert changed(package, "kernels.py", "def other(x): return x", "def other(x): return +x") == {"second"}


def test_what_no_variant_calls_counts_for_none(package):
    assert changed(package, "kernels.py", "return 1", "return 2") == set()


def test_inputs_count_for_all(package):
    assert changed(package, "program.py", "return {}", "return {1: 1}") == {"fused", "slow", "second"}


def test_a_native_source_named_by_a_string_counts(package):
    assert changed(package, "kernel.cu", "1", "2") == {"slow"}


def test_a_branch_that_cannot_be_decided_is_followed(package):
    (package / "program.py").write_text(PROGRAM.replace("if switches.fused:", "if len(inputs) > 1:"))
    assert changed(package, "kernels.py", "x * FACTOR", "FACTOR * x") == {"fused", "slow", "second"}


def test_a_new_switch_with_its_branch_leaves_the_others_alone(package):
    new = "    # a comment\n    if switches.newer:\n        return kernels.never()\n"
    before = digests(package)
    (package / "program.py").write_text(PROGRAM.replace("    # a comment\n", new))
    entries = [("work.program", "build"), ("work.program", "make_inputs")]
    after = digest_sources(entries, {"fused": True, "mode": "", "newer": False}, {"work": package})
    assert after == before["fused"]


def test_the_value_of_a_switch_that_the_code_reads_counts(package):
    (package / "program.py").write_text(PROGRAM.replace("kernels.fast(inputs)", "kernels.fast(switches.block)"))
    entries = [("work.program", "build")]
    one, two = (
        digest_sources(entries, {"fused": True, "mode": "", "block": block}, {"work": package}) for block in (64, 128)
    )
    assert one != two
