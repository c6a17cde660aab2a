"""How many batches the judge draws. Imports no torch."""

from __future__ import annotations

from phasewise.records.base import Bytes

# batches of which the result is known
POOL = 4
# fewer where one takes more bytes than this
BATCH_BYTES = 1 << 28
FEWEST = 2


def count_batches(batch_bytes: Bytes) -> int:
    """Batches of this size that a reference is followed over, if its case asks for no more."""
    return POOL if batch_bytes <= BATCH_BYTES else FEWEST
