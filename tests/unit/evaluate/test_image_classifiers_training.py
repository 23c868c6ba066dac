"""Networks trained on synthetic images: they learn, a seed settles everything, and nothing real chooses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from simulacra.evaluate.image_classifiers.learner import Learner
from simulacra.evaluate.image_classifiers.material import as_material, channels_first
from simulacra.evaluate.image_classifiers.recipes import RECIPES, Recipe
from simulacra.evaluate.image_classifiers.timetable import held_out_images, timetable
from simulacra.evaluate.image_classifiers.training import train

SIDES = {"resnet9": 12, "lenet": 16, "vgg11": 28, "resnet18": 10}
SHORTER = {"cnn": {"epochs": 8, "batch": 16}, "resnet9": {"epochs": 8, "batch": 16, "rate": 0.1}}


def halves(count: int, side: int, seed: int = 0, channels: int = 1) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images whose upper or lower half is bright."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    images = random.integers(0, 60, (count, side, side, channels), dtype=np.uint8)
    images[labels == 0, : side // 2] += 150
    images[labels == 1, side // 2 :] += 150
    return images, labels


def short(name: str) -> Recipe:
    steps = {"vgg11": 20, "resnet18": 8, "convnet": 20, "alexnet": 60, "lenet": 300, "mlp128": 100}
    return replace(RECIPES[name], **SHORTER.get(name, {"most_steps": steps.get(name)}))


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_learns_an_easy_problem(name):
    side = SIDES.get(name, 8)
    (answer,) = train(short(name), *halves(24, side), halves(20, side, seed=1)[0], classes=2, seeds=[0])
    assert answer.predicted is not None
    assert answer.predicted.dtype == np.int64
    assert np.mean(answer.predicted == np.arange(20) % 2) > 0.9
    assert answer.steps > 0


@pytest.mark.parametrize("name", ["cnn", "convnet"])
def test_a_seed_settles_everything_and_seeds_do_not_meet(name):
    """Dropout, augmentation, order, split and weights: alone or beside others, twice the same."""
    recipe = replace(RECIPES[name], epochs=1, most_steps=None, batch=8)
    images, labels = halves(24, 8, channels=3)
    noise = np.random.default_rng(5).integers(0, 256, (300, 8, 8, 3), dtype=np.uint8)
    together = train(recipe, images, labels, noise, classes=2, seeds=[4, 5])
    for seed, answer in zip([4, 5], together, strict=True):
        (alone,) = train(recipe, images, labels, noise, classes=2, seeds=[seed])
        assert np.array_equal(alone.predicted, answer.predicted)
        assert alone.details == answer.details
    assert not np.array_equal(together[0].predicted, together[1].predicted)


def test_the_global_generator_goes_on_as_if_nothing_had_happened():
    torch.manual_seed(11)
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    train(replace(RECIPES["cnn"], epochs=1), *halves(24, 8), halves(4, 8)[0], classes=2, seeds=[0])
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002


def learner(recipe: Recipe, images: NDArray[np.uint8], labels: NDArray[np.int64], seed: int = 0) -> Learner:
    count = len(images) - held_out_images(recipe, len(images))
    table = timetable(recipe, images=count, channels=images.shape[3])
    material = as_material(recipe, images, labels, classes=2, device="cpu")
    return Learner(recipe, material, table, seed=seed)


def test_a_twelfth_is_held_out_by_the_seed_and_never_trained_on():
    images, labels = halves(60, 8)
    first, second = (learner(RECIPES["cnn"], images, labels, seed) for seed in (0, 1))
    assert len(first.held_out) == 5
    assert set(first.held_out.tolist()).isdisjoint(first.trained_on.tolist())
    assert set(first.held_out.tolist()) | set(first.trained_on.tolist()) == set(range(60))
    assert first.held_out.tolist() != second.held_out.tolist()
    before = first.trained_on.tolist()
    first.shuffle()
    assert sorted(first.order.tolist()) == sorted(before)
    assert first.order.tolist() != first.trained_on.tolist() == before


def test_the_epoch_is_chosen_by_held_out_synthetic_images_alone():
    """The weights that count are the same whatever the test images, and are those of the best epoch."""
    recipe = replace(RECIPES["cnn"], epochs=3, batch=8, held_out=0.25)
    images, labels = halves(32, 8)
    tests = [halves(40, 8, seed=1)[0], np.full((7, 8, 8, 1), 255, dtype=np.uint8)]
    details = [train(recipe, images, labels, test, classes=2, seeds=[0])[0].details for test in tests]
    assert details[0] == details[1]
    assert details[0]["held_out_images"] == 8
    assert 1 <= details[0]["chosen_epoch"] <= 3

    watched = learner(recipe, images, labels)
    watched.best = (2.0, 0, watched.saved())  # an accuracy that no later epoch can pass
    before = [weight.detach().clone() for weight in watched.weights]
    watched.shuffle()
    watched.step(8, "")
    watched.end_epoch(1)
    assert not torch.equal(watched.weights[0], before[0])
    assert watched.finish()["chosen_epoch"] == 1
    assert all(torch.equal(weight, old) for weight, old in zip(watched.weights, before, strict=True))


def test_a_step_is_that_of_torch_optimisers_without_tricks():
    images, labels = halves(16, 8)
    recipe = replace(RECIPES["convnet"], augmentation=(), batch=8, epochs=2, arithmetic="float32")
    ours = learner(recipe, images, labels)
    reference = learner(recipe, images, labels)
    reference.network.load_state_dict(ours.network.state_dict())
    plain = torch.optim.SGD(reference.network.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    inputs = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255 * 2 - 1
    ours.shuffle()
    for batch in torch.split(ours.order, 8):
        ours.step(8, "")
        plain.zero_grad()
        torch.nn.functional.cross_entropy(reference.network(inputs[batch]), torch.from_numpy(labels)[batch]).backward()
        plain.step()
    for one, other in zip(ours.weights, reference.weights, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_restarting_undoes_every_step():
    """Warm-ups before a capture must leave no trace."""
    images, labels = halves(24, 12)
    for name in ("resnet9", "cnn"):
        warmed = learner(replace(RECIPES[name], batch=8, rate=0.1, schedule="constant", held_out=0.0), images, labels)
        saved = warmed.saved()
        runs = []
        for _ in range(2):
            torch.manual_seed(0)
            for _ in range(2):
                warmed.step(8, "")
            runs.append([weight.detach().clone() for weight in warmed.weights])
            warmed.restart(saved)
        assert all(torch.equal(one, other) for one, other in zip(*runs, strict=True))
        assert warmed.steps.item() == warmed.position.item() == 0
        state = warmed.network.state_dict()
        assert all(torch.equal(state[key], value) for key, value in saved.items())


def test_the_test_is_mirrored_from_left_to_right():
    images, labels = halves(24, 12, channels=3)
    mirrored = learner(replace(RECIPES["resnet9"], batch=8, mirror=True), images, labels)
    asked = channels_first(np.random.default_rng(0).integers(0, 256, (6, 12, 12, 3), dtype=np.uint8))
    seen: list[torch.Tensor] = []
    handle = mirrored.network.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    mirrored.answers(asked)
    handle.remove()
    assert len(seen) == 2
    assert torch.equal(seen[1], seen[0].flip(3))
    assert torch.equal(mirrored.answers(asked), mirrored.answers(asked.flip(3)))


def test_training_that_diverges_gives_no_answer():
    recipe = replace(RECIPES["mlp128"], rate=1e30, most_steps=20)
    (answer,) = train(recipe, *halves(16, 8), halves(6, 8)[0], classes=2, seeds=[0])
    assert answer.predicted is None


@pytest.mark.parametrize("name", ["cnn", "resnet9", "mlp128"])
def test_two_images_and_images_that_are_all_alike_are_enough(name):
    images = np.full((2, 12, 12, 1), 7, dtype=np.uint8)
    (answer,) = train(short(name), images, np.array([0, 1]), images, classes=3, seeds=[0])
    assert answer.predicted is not None
    assert set(answer.predicted.tolist()) <= {0, 1, 2}


def test_inputs_are_scaled_as_the_recipe_says():
    images = np.random.default_rng(0).integers(0, 256, (50, 4, 4, 3), dtype=np.uint8)
    labels = np.zeros(50, dtype=np.int64)
    for name, low, high in (("unit", 0.0, 1.0), ("signed", -1.0, 1.0)):
        material = as_material(replace(RECIPES["cnn"], normalisation=name), images, labels, classes=2, device="cpu")
        inputs = material.inputs(material.images)
        assert inputs.min().item() == pytest.approx(low, abs=1e-6)
        assert inputs.max().item() == pytest.approx(high, abs=1e-6)
    material = as_material(RECIPES["resnet9"], images, labels, classes=2, device="cpu")
    inputs = material.inputs(material.images)
    assert torch.allclose(inputs.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(inputs.std(dim=(0, 2, 3), correction=0), torch.ones(3), atol=1e-5)
    flat = as_material(RECIPES["resnet9"], np.full_like(images, 9), labels, classes=2, device="cpu")
    assert torch.allclose(flat.inputs(flat.images), torch.zeros(()), atol=1e-5)


def test_timetables_are_those_of_the_papers():
    cnn = timetable(RECIPES["cnn"], images=55_000, channels=1)
    assert (cnn.epochs, len(cnn.sizes), cnn.sizes[-1], set(cnn.operations)) == (10, 860, 24, {""})
    assert held_out_images(RECIPES["cnn"], 60_000) == 5_000
    resnet = timetable(RECIPES["resnet9"], images=50_000, channels=3)
    assert (resnet.epochs, set(resnet.sizes), len(resnet.sizes)) == (10, {512}, 97)
    assert resnet.rates[0] == 0
    assert max(resnet.rates) == resnet.rates[5 * 97] == 0.5
    few = timetable(RECIPES["convnet"], images=500, channels=1)
    assert (few.epochs, few.sizes, few.steps) == (1000, (256, 244), 2000)
    assert (few.rates[999], few.rates[1000]) == (0.01, pytest.approx(0.001))
    many = timetable(RECIPES["convnet"], images=60_000, channels=1)
    assert (many.epochs, len(many.sizes)) == (42, 235)
    assert many.steps <= 10_000
    assert timetable(RECIPES["convnet"], images=3_000_000, channels=1).epochs == 1


def test_colour_images_are_mirrored_and_grey_ones_are_not_unless_told():
    recipe = replace(RECIPES["convnet"], epochs=100)
    assert "flip" in timetable(recipe, images=100, channels=3).operations
    assert "flip" not in timetable(recipe, images=100, channels=1).operations
    assert "flip" in timetable(replace(recipe, mirror=True), images=100, channels=1).operations
    assert "flip" not in timetable(replace(recipe, mirror=False), images=100, channels=3).operations
    assert set(timetable(RECIPES["cnn"], images=100, channels=3).operations) == {""}
    assert len(timetable(recipe, images=300, channels=3).kinds()) == 12


def test_progress_is_told_ten_times_at_most_or_so():
    told: list[str] = []
    recipe = replace(RECIPES["mlp128"], epochs=20)
    train(recipe, *halves(16, 8), halves(6, 8)[0], classes=2, seeds=[0], progress=told.append)
    assert len(told) == 10
    assert told[0] == "Perceptron of the condensation papers: epoch 1 of 20"
