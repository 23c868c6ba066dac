"""Pictures of dead leaves: the same everywhere, in range, and with areas and edges of all sizes."""

from __future__ import annotations

import hashlib

import pytest
import torch

from simulacra.features.leaves import dead_leaves
from simulacra.schema import ImageShape

SHAPES = [ImageShape(height=32, width=32, channels=3), ImageShape(height=9, width=14)]


@pytest.mark.parametrize("image", SHAPES)
def test_pictures_are_points_of_the_image(image: ImageShape) -> None:
    found = dead_leaves(5, image, seed=1)
    assert found.shape == (5, image.pixels)
    assert found.dtype == torch.float32
    assert 0 <= found.min() < found.max() <= 1
    assert torch.equal(found[:3], dead_leaves(3, image, seed=1)), "more pictures begin with the same"
    assert not torch.equal(found, dead_leaves(5, image, seed=2))


def test_pictures_are_the_same_everywhere() -> None:
    """A release about their mean is trained from elsewhere, with another numpy."""
    levels = (dead_leaves(4, SHAPES[0], seed=0) * 255).round().to(torch.uint8)
    assert hashlib.sha256(levels.numpy().tobytes()).hexdigest()[:16] == "45fc6eb694181922"


def test_neighbours_are_mostly_alike_and_edges_are_sharp() -> None:
    pictures = dead_leaves(50, SHAPES[0], seed=0).reshape(-1, 3, 32, 32)
    steps = (pictures[..., 1:] - pictures[..., :-1]).abs().amax(dim=1)
    assert 0.05 < (steps > 0).float().mean() < 0.5, "some neighbours are on other leaves"
    assert steps[steps > 0].mean() > 0.1
    assert pictures.mean(dim=(1, 2, 3)).std() > 0.1, "some pictures are lighter than others"
