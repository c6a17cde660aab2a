"""Which packages a machine has: asked of this one, read of one on record."""

from __future__ import annotations

import pytest

from phasewise.environment import PACKAGES
from phasewise.model.needs import MACHINE, RECORDED, unmet
from phasewise.model.workload import Needs
from phasewise.records.machine import Machine

H200 = Machine(device="h200", kind="cuda", name="NVIDIA H200", gpus=4, versions={"torch": "2.11.0", "triton": "3.6.0"})


@pytest.fixture
def bare_login_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv(MACHINE, "h200")


def test_this_machine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MACHINE, raising=False)
    assert unmet(Needs(modules=("json",)), H200) is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert unmet(Needs(modules=("triton",)), H200) == "needs the package triton (pip install triton)"


def test_a_machine_on_record_has_what_its_record_names(bare_login_node: None) -> None:
    assert unmet(Needs(modules=("triton",)), H200) is None
    assert unmet(Needs(modules=("triton", "jax")), H200) == "needs the package jax (pip install jax)"


def test_a_package_that_no_record_names_is_taken_to_be_there(bare_login_node: None) -> None:
    assert unmet(Needs(modules=("torchdiffeq",)), H200) is None


def test_every_machine_is_recorded_with_what_is_read_of_it() -> None:
    assert set(RECORDED.values()) <= set(PACKAGES)
