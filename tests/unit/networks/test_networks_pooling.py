"""Normalising, rectifying and pooling in one is what three layers do, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from simulacra.networks.convnet import ConvNet
from simulacra.networks.pooling import normalised_and_pooled


@pytest.mark.parametrize("shape", [(3, 4, 8, 8), (2, 3, 9, 13), (1, 1, 2, 3)])
def test_it_is_what_three_layers_do(shape: tuple[int, int, int, int]) -> None:
    random = torch.Generator().manual_seed(0)
    values = (torch.randn(shape, generator=random, dtype=torch.float64) + 3).requires_grad_()
    quick = normalised_and_pooled(values)
    plain = functional.avg_pool2d(functional.group_norm(values, shape[1]).relu(), 2)
    torch.testing.assert_close(quick, plain)
    torch.testing.assert_close(normalised_and_pooled(values.detach()), plain.detach())
    weights = torch.randn(plain.shape, generator=random, dtype=torch.float64)
    gradients = [torch.autograd.grad((made * weights).sum(), values)[0] for made in (quick, plain)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 0.0])
@pytest.mark.parametrize("channels", [1, 3])
def test_an_untrained_network_shows_the_same_either_way(channels: int, scale: float) -> None:
    """Nearly flat images too, without biases, which would drown them."""
    torch.manual_seed(0)
    network = ConvNet(channels=channels, height=28, width=28, classes=2)
    images = (torch.rand(4, channels, 28, 28) * 2 - 1) * scale
    for layer in network.features:
        if isinstance(layer, torch.nn.Conv2d) and layer.bias is not None and scale < 1:
            torch.nn.init.zeros_(layer.bias)
    torch.testing.assert_close(network.embed_untrained(images), network.embed(images), rtol=1e-4, atol=1e-4)
