"""The parent's side of worker processes: start, ask, give up on and end them, alone on the machine where they are timed."""
