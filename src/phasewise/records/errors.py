"""Errors that a user can cure: one sentence, exit code 2, no traceback."""

from __future__ import annotations


class UserError(ValueError):
    """One sentence with the place, the value, what is allowed and the cure."""


class PlanError(UserError):
    """A workload or configuration from which no plan can be made."""


class RecordError(UserError):
    """A record that cannot be read: corrupt, of another schema, or of another kind."""
