"""Augmentation: what leaves images alone, what it moves, and that gradients pass."""

from __future__ import annotations

import pytest
import torch

from simulacra.networks.augmentation import OPERATIONS, apply, draw

IDENTITY = {
    "color": [0.0, 1.0, 1.0],
    "crop": [0.0, 0.0],
    "scale": [1.0, 1.0],
    "rotate": [0.0],
    "flip": [0.0],
}


def images(count: int = 4, channels: int = 3, height: int = 8, width: int = 10) -> torch.Tensor:
    return torch.rand(count, channels, height, width, generator=torch.Generator().manual_seed(0)) + 0.1


def drawn(operation: str, count: int, seed: int = 0) -> torch.Tensor:
    return draw(operation, count, height=8, width=10, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("operation", IDENTITY)
def test_identity_parameters_leave_images_alone(operation):
    parameters = torch.tensor([IDENTITY[operation]]).expand(4, -1)
    assert torch.allclose(apply(operation, images(), parameters), images(), atol=1e-5)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_gradients_flow_back_to_the_images(operation):
    source = images().requires_grad_()
    changed = apply(operation, source, drawn(operation, 4))
    assert changed.shape == source.shape
    (gradient,) = torch.autograd.grad(changed.square().sum(), source)
    assert gradient.isfinite().all()
    assert all(gradient[number].abs().sum() > 0 for number in range(4))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_batch_is_changed_as_its_images_are_one_by_one(operation):
    parameters = drawn(operation, 4)
    together = apply(operation, images(), parameters)
    alone = [apply(operation, images()[n : n + 1], parameters[n : n + 1]) for n in range(4)]
    assert torch.allclose(together, torch.cat(alone), atol=1e-6)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_images_of_a_group_share_their_parameters(operation):
    """Siamese use: a row for each group, handed to each of its images."""
    groups = torch.tensor([0, 1, 0, 1])
    source = images(2)[[0, 0, 0, 0]]
    changed = apply(operation, source, drawn(operation, 2, seed=3)[groups])
    assert torch.equal(changed[0], changed[2])
    assert torch.equal(changed[1], changed[3])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_generator_makes_the_draw_repeatable_and_spares_the_global_one(operation):
    state = torch.get_rng_state()
    assert torch.equal(drawn(operation, 5), drawn(operation, 5))
    assert torch.equal(torch.get_rng_state(), state)


def test_parameters_stay_within_the_ranges_of_the_papers():
    many = {name: draw(name, 20_000, height=28, width=28) for name in OPERATIONS}
    low, high = many["color"].amin(0), many["color"].amax(0)
    assert torch.allclose(low, torch.tensor([-0.5, 0.0, 0.5]), atol=1e-2)
    assert torch.allclose(high, torch.tensor([0.5, 2.0, 1.5]), atol=1e-2)
    assert set(many["crop"].unique().tolist()) == set(range(-4, 5))
    assert set(many["cutout"].unique().tolist()) == set(range(29))
    assert many["scale"].amin().item() == pytest.approx(1 / 1.2, abs=1e-3)
    assert many["scale"].amax().item() == pytest.approx(1.2, abs=1e-3)
    assert many["rotate"].abs().amax().item() == pytest.approx(15, abs=0.1)
    assert many["flip"].mean().item() == pytest.approx(0.5, abs=0.02)


def test_flip_mirrors_the_width():
    parameters = torch.tensor([[1.0], [0.0]])
    source = images(2)
    changed = apply("flip", source, parameters)
    assert torch.equal(changed[0], source[0].flip(2))
    assert torch.equal(changed[1], source[1])


def test_crop_shifts_and_fills_with_nothing():
    source = images(1)
    changed = apply("crop", source, torch.tensor([[1.0, -2.0]]))
    assert torch.equal(changed[0, :, :-1, 2:], source[0, :, 1:, :-2])
    assert not changed[0, :, -1].any()
    assert not changed[0, :, :, :2].any()


def test_cutout_makes_a_hole_of_half_the_side():
    changed = apply("cutout", images(2), torch.tensor([[4.0, 5.0], [0.0, 0.0]]))
    hole = changed[0, 0] == 0
    assert hole.sum() == 4 * 5
    assert hole[2:6, 3:8].all()
    assert (changed[1, 0] == 0).sum() == 2 * 3  # at the corner, the rest of the hole is outside


def test_rotation_by_a_right_angle_turns_a_square():
    source = torch.rand(1, 1, 6, 6)
    changed = apply("rotate", source, torch.tensor([[90.0]]))
    turned = torch.rot90(source, 1, (2, 3))
    assert torch.allclose(changed, turned, atol=1e-4) or torch.allclose(changed, turned.flip(2, 3), atol=1e-4)


def test_grey_images_have_no_saturation_to_lose():
    source = images(channels=1)
    parameters = torch.tensor([[0.0, 0.3, 1.0]]).expand(4, -1)
    assert torch.allclose(apply("color", source, parameters), source, atol=1e-6)


def test_an_unknown_operation_is_named():
    with pytest.raises(ValueError, match="blur"):
        draw("blur", 1, height=8, width=8)
