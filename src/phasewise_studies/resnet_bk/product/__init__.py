"""What a user runs: train the causal model on a text of one's own, go on, generate, export."""
