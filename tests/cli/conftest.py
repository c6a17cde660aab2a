"""Commands are called in this process, and some of them set variables for the processes that they start."""

import os
from unittest import mock

import pytest


@pytest.fixture(autouse=True)
def environment():
    """Each test's own."""
    with mock.patch.dict(os.environ):
        yield
