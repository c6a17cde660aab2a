"""The gate: a variant's numbers against a float64 reference, guards against programs that only look right, and checks."""

from phasewise.validate.variant import validate_variant

__all__ = ["validate_variant"]
