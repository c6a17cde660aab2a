"""Building variants in processes of their own, and talking to those processes."""
