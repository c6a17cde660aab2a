"""Building blocks that phases of any workload use; thin over torch, each of use by itself."""
