"""The measure stage: ratios from interleaved rounds of paired processes."""

from phasewise.measure.compare import Comparison, compare
from phasewise.measure.variant import measure_variant

__all__ = ["Comparison", "compare", "measure_variant"]
