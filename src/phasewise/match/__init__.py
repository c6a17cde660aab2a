"""Two sides in, a verdict out: is the candidate right, and is it faster than the base?

The two are the variants of a workload that is made up for them; gate, judge, rounds and statistics are those of every workload. Its
functions are imported by the processes that are judged, so nothing else is imported here.
"""
