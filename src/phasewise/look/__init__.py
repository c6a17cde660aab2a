"""Any script in, where a step of its time goes out.

The script runs unchanged in a process of its own, under hooks that torch offers. What they record is read by the code that reads the
profiles of a workload. `inside` and what it imports run in the script's process; `play` starts that, and imports no torch.
"""
