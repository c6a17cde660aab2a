"""The prepare stage: artifacts made once, declared work, and the measured peaks of the machine."""
