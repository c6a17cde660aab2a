"""Two sides in, a verdict out: is the candidate right, and is it faster than the base?

The two are the variants of a workload that is made up for them; gate, judge, rounds and statistics are those of every workload.
"""

from phasewise.match.plan import Effort
from phasewise.match.play import judge
from phasewise.records.judgement import Judgement, Match

__all__ = ["Effort", "Judgement", "Match", "judge"]
