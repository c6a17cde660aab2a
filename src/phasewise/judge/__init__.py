"""Two functions in, a verdict out: is the candidate right, and is it faster than the base?

Three kinds of process: the parent draws, asks and keeps the time, and imports no torch; the referee makes the batches, holds the
float64 reference in its memory and compares; a player runs one side, and sees batches only. Batches and outputs travel through
memory files that the parent made.
"""

from phasewise.judge.match import judge
from phasewise.judge.verdict import ExitCode, Judgement

__all__ = ["ExitCode", "Judgement", "judge"]
