"""Steps of a condensed set: those that can be captured are the plain ones, round by round."""

from __future__ import annotations

import pytest
import torch

from simulacra.features.extractors import ConvolutionalExtractor
from simulacra.generators import GeneratorOptions
from simulacra.methods.condensation import fresh_set
from simulacra.methods.condensing import Condensing, Matching
from simulacra.networks.augmentation import OPERATIONS
from simulacra.networks.graphs import Graphs
from simulacra.schema import ImageShape, Schema

IMAGE = ImageShape(height=8, width=8, classes=("a", "b", "c"))


def matching() -> Matching:
    held = fresh_set(Schema(image=IMAGE), GeneratorOptions(kind="condensed", per_class=2, spread=1.0), 0)
    extractor = ConvolutionalExtractor(IMAGE, 3, operations=OPERATIONS, in_place=True)
    weights = torch.tensor([[3.0], [5.0], [1.0]])
    return Matching(Condensing(held, "cpu"), extractor, weights=weights, clip=1.0, momentum=0.5)


def test_a_step_in_slots_is_the_step() -> None:
    plain, slots = matching(), matching()
    random = torch.Generator().manual_seed(1)
    for number in range(10):
        noisy = torch.randn(3, plain.extractor.width, generator=random, dtype=torch.float64)
        for each in (plain, slots):
            each.extractor.draw_anew(0, number)
        rate = 1 / (number + 1)
        expected = plain(noisy, rate=rate)
        assert slots.in_slots(noisy, rate=rate).item() == pytest.approx(expected.item(), rel=1e-4)
        for name, value in plain.learned.state().items():
            torch.testing.assert_close(slots.learned.state()[name], value, rtol=1e-4, atol=1e-5)


def test_a_step_changes_tensors_where_they_are() -> None:
    made = matching()
    tensors = [made.noisy, made.rate, made.loss, made.learned.velocity, made.learned.held.values]
    places = [tensor.data_ptr() for tensor in tensors]
    made.extractor.draw_anew(0, 0)
    made.in_slots(torch.ones(3, made.extractor.width, dtype=torch.float64), rate=0.5)
    made.learned.load({name: value.detach().clone() for name, value in made.learned.state().items()})
    assert [tensor.data_ptr() for tensor in tensors] == places


def test_on_a_processor_work_is_just_done() -> None:
    graphs, done = Graphs("cpu"), list[int]()
    graphs.add("one", lambda: done.append(1))
    assert not done
    assert "one" in graphs
    assert not graphs.captured
    graphs("one")
    graphs("one")
    assert done == [1, 1]
