from collections import Counter

import pytest
import torch

from phasewise.profile.rework import Rework, price_rework
from phasewise.records.profile import Operator


def repeats(work):
    with Rework() as rework:
        work()
    return {name: calls for (name, _), calls in rework.repeated.items()}


@pytest.fixture
def x():
    return torch.rand(16, 16)


def test_the_same_operator_on_the_same_tensor_is_work_done_twice(x):
    assert repeats(lambda: (x.exp(), x.exp(), x.exp())) == {"aten::exp": 2}


def test_a_tensor_that_was_written_in_between_is_another_one(x):
    assert repeats(lambda: (x.exp(), x.add_(1), x.exp())) == {}
    assert repeats(lambda: (x.exp(), x[0].mul_(2), x.exp())) == {}
    assert repeats(lambda: (x.exp(), torch.neg(x, out=x), x.exp())) == {}


def test_other_scalars_views_or_shapes_are_other_work(x):
    assert repeats(lambda: (x.mul(2), x.mul(3), x.t().mul(2), x[:8].mul(2), x.sum(0), x.sum(1))) == {}
    assert repeats(lambda: (x.t().mul(2), x.t().mul(2))) == {"aten::mul": 1}


def test_memory_that_is_used_again_for_another_result_is_another_tensor(x):
    def work():
        for index in range(20):
            # each product is released before the next one is allocated, mostly at the same address
            (x * index).exp()

    assert repeats(work) == {}


def test_random_numbers_small_tensors_and_views_are_not_counted(x):
    small = torch.rand(4)
    assert (
        repeats(
            lambda: (torch.dropout(x, 0.5, True), torch.dropout(x, 0.5, True), small.exp(), small.exp(), x.t(), x.t())
        )
        == {}
    )


def test_repeated_calls_cost_the_traced_mean_of_their_shapes():
    operators = [
        Operator(name="aten::exp", calls=4, self_s=8e-6, device_s=0, shapes="float32[16,16]"),
        Operator(name="aten::mul", calls=1, self_s=9e-6, device_s=0, shapes="float32[4]"),
    ]
    repeated = Counter({("aten::exp", "float32[16,16]"): 3, ("aten::mul", "float32[8]"): 1})
    assert price_rework(repeated, operators) == (4, "aten::exp", pytest.approx(6e-6))
    assert price_rework(Counter(), operators) == (0, "", 0)
