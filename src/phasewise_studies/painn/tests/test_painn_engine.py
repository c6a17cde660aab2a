"""All kernels together, in Triton's interpreter: energies and forces of the reference, and no fallback."""

from __future__ import annotations

import pytest

from phasewise_studies.testing import interpret_once


@pytest.mark.slow
def test_the_whole_stack_of_kernels_gives_the_forces_of_the_reference(tmp_path_factory) -> None:
    found = interpret_once(tmp_path_factory, "phasewise_studies.painn.tests.painn_interpret_engine")
    assert len(found) == 2
    for name, case in found.items():
        assert case["fallbacks"] == [], name
        assert case["energy"] < 1e-4, name
        assert case["forces"] < 1e-5, name
