"""The profile stage: where the time of a step goes, from traces, counters and probes; never a timing."""

from phasewise.profile.variant import profile_variant

__all__ = ["profile_variant"]
