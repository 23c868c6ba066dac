"""On a GPU: captured steps are the plain ones, and leave torch's generators alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from simulacra.evaluate.image_classifiers import predictions, training, twin_logistic
from simulacra.evaluate.image_classifiers.recipes import RECIPES

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="captured CUDA graphs exist on a GPU only; run there"
)


def halves(count: int, side: int, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    images = random.integers(0, 200, (count, side, side, 1), dtype=np.uint8)
    images[labels == 0, : side // 2] //= 2
    return images, labels


@pytest.mark.parametrize("name", ["convnet", "resnet9", "mlp128"])
def test_captured_steps_answer_as_plain_ones(name, monkeypatch):
    """Without augmentation and dropout, so that no random number is drawn in a step; with a last batch of its own."""
    recipe = replace(
        RECIPES[name], epochs=3, batch=16, augmentation=(), keep_last_batch=True, arithmetic="float32", rate=0.01
    )
    data, test = halves(75, 28), halves(400, 28, seed=1)[0]
    captured = training.train(recipe, *data, test, classes=2, seeds=[0, 1], device="cuda")
    assert all(answer.details["captured"] for answer in captured)
    monkeypatch.setattr(training, "capture", lambda *_: None)
    plain = training.train(recipe, *data, test, classes=2, seeds=[0, 1], device="cuda")
    assert not any(answer.details["captured"] for answer in plain)
    for one, other in zip(captured, plain, strict=True):
        assert one.predicted is not None
        assert np.mean(one.predicted == other.predicted) > 0.98


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_can_be_captured(name):
    recipe = replace(RECIPES[name], epochs=4)
    state = torch.cuda.get_rng_state()
    answers = training.train(recipe, *halves(600, 28), halves(50, 28)[0], classes=2, seeds=[0, 1], device="cuda")
    assert all(answer.details["captured"] for answer in answers)
    assert all(answer.predicted is not None for answer in answers)
    assert torch.equal(torch.cuda.get_rng_state(), state)


def test_the_twins_answer_as_on_the_processor():
    (images, labels), (test, truth) = halves(500, 8), halves(300, 8, seed=1)
    on_gpu, _ = twin_logistic.fit(images.reshape(500, -1) / np.float32(255), labels, device="cuda")
    on_cpu, _ = twin_logistic.fit(images.reshape(500, -1) / np.float32(255), labels, device="cpu")
    np.testing.assert_allclose(on_gpu, on_cpu, atol=1e-3)
    for name in ("lr", "mlp"):
        for answer in predictions(name, images, labels, test, classes=2, seeds=[0, 1], device="cuda"):
            assert answer.engine == "torch"
            assert np.mean(answer.predicted == truth) > 0.9
