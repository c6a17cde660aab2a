"""What a user runs: training on data of their own, export, text from an exported model."""
