"""The judge: a process that makes the batches, holds the float64 reference in its memory, and compares what programs gave.

The candidate's process sees batches only; both travel through memory files that the parent made.
"""
