"""The child's side of a worker process: the only place that builds programs, and the only clock."""
