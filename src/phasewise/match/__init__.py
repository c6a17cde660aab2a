"""Two functions in, a verdict out: is the candidate right, and is it faster than the base?

The two are the variants of a workload that is made up for them; gate, judge, rounds and statistics are those of every workload.
"""

from phasewise.match.play import Effort, judge
from phasewise.match.verdict import ExitCode, Judgement

__all__ = ["Effort", "ExitCode", "Judgement", "judge"]
