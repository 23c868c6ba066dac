"""Upsampling as matrix products, and the residual generator."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import interpolate

from simulacra.errors import SettingError
from simulacra.generators import GeneratorOptions, build
from simulacra.generators.doubling import UpConvolution, doubling
from simulacra.generators.residual import ResidualGenerator, UpBlock, fits
from simulacra.schema import ImageShape, Schema


def picture(height: int, width: int, channels: int, classes: tuple[str, ...] = ()) -> Schema:
    return Schema(columns=(), image=ImageShape(height=height, width=width, channels=channels, classes=classes))


@pytest.mark.parametrize(("height", "width"), [(7, 7), (1, 3), (2, 5), (14, 14)])
def test_two_matrices_are_bilinear_interpolation(height: int, width: int) -> None:
    images = torch.rand(3, 2, height, width, dtype=torch.float64)
    ours = doubling(height).double() @ images @ doubling(width).double().T
    theirs = interpolate(images, scale_factor=2, mode="bilinear", align_corners=True)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("inputs", "outputs", "height", "width"), [(4, 3, 5, 7), (2, 1, 6, 6), (1, 2, 1, 2)])
def test_one_matrix_product_is_upsampling_and_convolution_with_its_gradients(
    inputs: int, outputs: int, height: int, width: int
) -> None:
    layer = UpConvolution(inputs, outputs, height=height, width=width).double()
    one = torch.rand(3, inputs, height, width, dtype=torch.float64, requires_grad=True)
    other = one.detach().clone().requires_grad_()
    pull = torch.rand(3, outputs, 2 * height, 2 * width, dtype=torch.float64)
    parameters = list(layer.parameters())
    product, plain = layer.as_one_product(one), layer(other)
    torch.testing.assert_close(product, plain)
    ours = torch.autograd.grad((product * pull).sum(), [one, *parameters])
    theirs = torch.autograd.grad((plain * pull).sum(), [other, *parameters])
    for mine, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, expected)


def test_only_the_convolution_is_saved() -> None:
    assert set(UpConvolution(2, 1, height=3, width=3).state_dict()) == {"convolution.weight", "convolution.bias"}


def test_the_residual_generator_has_the_published_size() -> None:
    """3.32 million parameters at 32 x 32, of which the code's 100 numbers open 512 channels."""
    network = build(picture(32, 32, 3), GeneratorOptions(kind="residual", latent=99))
    assert isinstance(network, ResidualGenerator)
    assert sum(value.numel() for value in network.parameters()) == pytest.approx(3.32e6, rel=0.01)


@pytest.mark.parametrize("side", [4, 8, 64])
def test_the_residual_generator_makes_images_of_its_side(side: int) -> None:
    network = build(picture(side, side, 1, ("a", "b")), GeneratorOptions(kind="residual", latent=5)).eval()
    with torch.no_grad():
        drawn = network(torch.randn(2, 5), torch.eye(2))
    assert drawn.shape == (2, side * side)
    assert 0 <= drawn.min() <= drawn.max() <= 1


def test_a_block_doubles_the_side() -> None:
    with torch.no_grad():
        assert UpBlock(4, 2)(torch.rand(3, 4, 5, 5)).shape == (3, 2, 10, 10)


@pytest.mark.parametrize(("height", "width", "fine"), [(32, 32, True), (32, 16, False), (28, 28, False), (2, 2, False)])
def test_which_images_it_can_make(height: int, width: int, fine: bool) -> None:
    assert fits(ImageShape(height=height, width=width)) is fine


@pytest.mark.parametrize(
    ("schema", "kind", "says"),
    [(picture(28, 28, 1), "residual", "square images of side"), (picture(7, 9, 1), "convolutional", "multiples of 4")],
)
def test_a_kind_that_does_not_fit_is_refused_with_the_fix(schema: Schema, kind: str, says: str) -> None:
    with pytest.raises(SettingError, match=says) as error:
        build(schema, GeneratorOptions.from_mapping({"kind": kind}))
    assert "generator.kind" in str(error.value)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(SettingError, match="expected one of"):
        GeneratorOptions.from_mapping({"kind": "transformer"})
