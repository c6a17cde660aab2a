"""Prepared text for every test of this folder."""

from __future__ import annotations

import pytest

from phasewise_studies.resnet_bk.tests.resnet_bk_cases import prepare_text


@pytest.fixture(scope="session", autouse=True)
def resnet_bk_text(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The environment names the folder, as the stages' own processes do."""
    prepare_text(tmp_path_factory.mktemp("resnet_bk"))
