"""What may be behind a result that is far off: no rounding makes it, other weights do."""

from __future__ import annotations

from collections.abc import Iterable

from phasewise.records.validate import Outcome, TensorError

# share of a result's own size: half precision is off by a hundredth at most, other weights by about all of it
FAR = 0.1
BASELINE = (
    "the weights may differ: build draws random numbers, and the reference takes over only what modules hold; seed them in build, "
    "and draw in make_inputs what is in no module"
)
VARIANT = "the weights may differ from the baseline's: build draws random numbers; seed them in build, and draw them in the same order"


def suspect_weights(errors: Iterable[TensorError], *, draws: bool, is_baseline: bool) -> str:
    """A sentence if an output is far off and the build drew random numbers; "" otherwise."""
    shares = [error.relative for error in errors if error.outcome is Outcome.FAIL and error.kind == "output"]
    if not draws or not any(share is not None and share > FAR for share in shares):
        return ""
    return BASELINE if is_baseline else VARIANT
