"""Lines for a terminal, which obeys control characters: none that came from a user's code or from a record gets there."""

from __future__ import annotations

import click

from phasewise.records.text import clean_lines


def say(text: str, *, err: bool = False) -> None:
    """Print `text`, line by line, without control characters."""
    click.echo(clean_lines(text), err=err)
