"""A plugin of pytest that leaves out the tests of studies that no change concerns; a test that is named is never left out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from changed import STUDIES, choose_left_out

LEFT_OUT = pytest.StashKey[list[str]]()
TOLD = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--changed-studies",
        action="store_true",
        help="leave out the tests of studies that nothing concerns of what changed since PHASEWISE_TEST_BASE or origin/main",
    )


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.changed_studies:
        return
    if hasattr(config, "workerinput"):
        config.stash[LEFT_OUT] = config.workerinput["left_out"]
    else:
        wished = os.environ.get("PHASEWISE_TEST_BASE")
        config.stash[LEFT_OUT], config.stash[TOLD] = choose_left_out(config.rootpath, wished)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Every process of pytest-xdist leaves out the same."""
    node.workerinput["left_out"] = node.config.stash.get(LEFT_OUT, [])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    left_out = config.stash.get(LEFT_OUT, [])
    folders = (config.rootpath / STUDIES / study / "tests" for study in left_out)
    return True if collection_path in folders else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if TOLD in config.stash:
        terminalreporter.write_line(config.stash[TOLD])
