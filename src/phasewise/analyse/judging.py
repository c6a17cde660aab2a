"""What findings and verdicts are judged by: where it changes all are judged again, and a page that mixes two says so."""

from __future__ import annotations

import hashlib

from phasewise.run import Run
from phasewise.store import digest


def digest_judging(run: Run) -> str:
    """Digest of the machine's peaks and of the code, 16 digits."""
    peaks = run.machine.peaks
    return hashlib.sha256(f"{'' if peaks is None else digest(peaks)} {run.plan.code}".encode()).hexdigest()[:16]
