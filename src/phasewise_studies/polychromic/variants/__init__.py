"""What the switches choose: the programs of each case."""
