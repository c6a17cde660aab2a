"""A module that somebody has becomes a workload: a file to go on from, whose first phase a look suggests."""
