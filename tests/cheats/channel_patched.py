"""Divides the seconds in every answer that the worker's channel sends (KernelGuard HARNESS_RUNTIME_PATCHING)."""

from costly import infer, make_inputs, make_workload

from phasewise.workers import channel

__all__ = ["make_inputs"]
workload = make_workload()


def shrink(value):
    if isinstance(value, dict):
        return {key: item / 4 if key == "wall_s" else shrink(item) for key, item in value.items()}
    return value


def build(switches, inputs, case, shape, device):
    if switches.cheat:
        true = channel.Channel.send
        channel.Channel.send = lambda self, message: true(self, shrink(message))
    return infer(inputs, device)
