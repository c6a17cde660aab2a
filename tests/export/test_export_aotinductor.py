"""Which compiler AOTInductor is given."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from phasewise.export.formats import aotinductor

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.fixture
def static_compiler(tmp_path: Path) -> Path:
    """A g++ that links its runtime statically, as some toolchains do."""
    script = tmp_path / "static-g++"
    script.write_text('#!/bin/sh\nexec g++ -static-libstdc++ "$@"\n')
    script.chmod(0o755)
    return script


def test_a_compiler_with_a_runtime_of_its_own_is_passed_over_for_gxx(static_compiler: Path) -> None:
    assert aotinductor.choose_compiler(str(static_compiler)) == "g++"
    assert aotinductor.choose_compiler("g++") == "g++"


def test_a_gxx_on_the_path_with_a_runtime_of_its_own_is_passed_over_for_the_systems(
    static_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = shutil.which("g++")
    assert shared is not None
    first = static_compiler.parent / "bin"
    first.mkdir()
    (first / "g++").write_text(f'#!/bin/sh\nexec {shared} -static-libstdc++ "$@"\n')
    (first / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", f"{first}:{os.environ['PATH']}")
    monkeypatch.setattr(aotinductor, "OTHERS", ("g++", shared))
    aotinductor.choose_compiler.cache_clear()
    assert aotinductor.choose_compiler("g++") == shared
    aotinductor.choose_compiler.cache_clear()


def test_without_another_the_reason_names_the_cure(static_compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(static_compiler))
    monkeypatch.setattr(aotinductor, "choose_compiler", lambda named: None)
    assert "set CXX to a compiler with a shared libstdc++" in aotinductor.missing()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert aotinductor.missing() == "needs the C++ compiler no-such-compiler (install g++ or set CXX)"
