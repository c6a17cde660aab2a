"""What several tests of the user's path begin with."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Options that name a tiny model and its data."""
    # transformers is not installed everywhere
    from phasewise_studies.polychromic.tests.tiny_model import write_examples, write_tiny_model

    folder: Path = tmp_path_factory.mktemp("given")
    model, data = write_tiny_model(folder / "model"), write_examples(folder / "data.jsonl")
    return "--model", str(model), "--data", str(data)
