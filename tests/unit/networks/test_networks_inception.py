"""The Inception network: names, folding, and rearrangements that must change nothing."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
import torch
from torch.nn.functional import avg_pool2d, batch_norm, conv2d, max_pool2d, relu

from simulacra.errors import DataError
from simulacra.networks import weights
from simulacra.networks.inception import BlockA, BlockE, Inception
from simulacra.networks.inception_names import EPSILON, fold, other_names, places

EXPECTED_PARAMETERS = 21_768_352
"""Convolutions of the 2015 graph without its classifier, and one bias per channel."""


def published(seed: int = 0) -> dict[str, torch.Tensor]:
    """Invented weights under the names of the 2015 graph, small enough to stay finite through 94 layers."""
    random = torch.Generator().manual_seed(seed)
    shapes = {name: tuple(value.shape) for name, value in Inception().state_dict().items()}
    found: dict[str, torch.Tensor] = {}
    for ours, sources in places().items():
        outputs, inputs, height, width = shapes[f"{ours}.weight"]
        sizes = [outputs // len(sources)] * (len(sources) - 1)
        for source, size in zip(sources, [*sizes, outputs - sum(sizes)], strict=True):
            scale = (inputs * height * width) ** -0.5
            found[f"net.layers.{source}.weight"] = scale * torch.randn(size, inputs, height, width, generator=random)
            found[f"net.layers.{source}.beta"] = 0.1 * torch.randn(size, generator=random)
            found[f"net.layers.{source}.mean"] = 0.1 * torch.randn(size, generator=random)
            found[f"net.layers.{source}.var"] = 0.5 + torch.rand(size, generator=random)
    return found


def renamed(graph: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same tensors as torchvision and pytorch-fid name them."""
    sources = [source for group in places().values() for source in group]
    found = {}
    for source, other in zip(sources, other_names(), strict=True):
        found[f"{other}.conv.weight"] = graph[f"net.layers.{source}.weight"]
        found[f"{other}.bn.bias"] = graph[f"net.layers.{source}.beta"]
        found[f"{other}.bn.running_mean"] = graph[f"net.layers.{source}.mean"]
        found[f"{other}.bn.running_var"] = graph[f"net.layers.{source}.var"]
    return found


def plain(graph: dict[str, torch.Tensor], name: str, images: torch.Tensor, padding: tuple[int, int]) -> torch.Tensor:
    """A convolution, its batch norm and ReLU, as published."""
    parts = {part: graph[f"net.layers.{name}.{part}"].double() for part in ("weight", "beta", "mean", "var")}
    hidden = conv2d(images, parts["weight"], padding=padding)
    return relu(batch_norm(hidden, parts["mean"], parts["var"], None, parts["beta"], eps=EPSILON))


def block(network: Inception, number: int) -> torch.nn.Module:
    return network.blocks[number].double()


def test_there_are_94_convolutions_and_every_one_has_a_place() -> None:
    assert len(set(other_names())) == sum(len(group) for group in places().values()) == 94
    ours = {name.rpartition(".")[0] for name in Inception().state_dict()}
    assert ours == set(places())


def test_the_network_has_the_published_number_of_parameters() -> None:
    assert sum(value.numel() for value in Inception().parameters()) == EXPECTED_PARAMETERS


def test_both_translations_give_the_same_tensors() -> None:
    graph = published()
    one, other = fold(graph), fold(renamed(graph))
    assert one.keys() == Inception().state_dict().keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_another_network_is_refused_in_one_line() -> None:
    with pytest.raises(DataError, match="not the weights of the 2015 Inception"):
        fold({"features.0.weight": torch.zeros(1)})


def test_pooling_after_the_joint_convolution_is_the_published_block() -> None:
    graph = published()
    # Sizes per branch as published, which `published` splits evenly.
    network = Inception()
    network.load_state_dict(fold(_with_true_sizes(graph, "mixed", (64, 48, 64, 32))))
    images = torch.rand(2, 192, 9, 9, dtype=torch.float64)
    ours = block(network, 0)(images)
    graph = _with_true_sizes(graph, "mixed", (64, 48, 64, 32))
    five = plain(graph, "mixed.tower.conv_1", plain(graph, "mixed.tower.conv", images, (0, 0)), (2, 2))
    three = plain(graph, "mixed.tower_1.conv_1", plain(graph, "mixed.tower_1.conv", images, (0, 0)), (1, 1))
    pooled = avg_pool2d(images, 3, stride=1, padding=1, count_include_pad=False)
    branches = [
        plain(graph, "mixed.conv", images, (0, 0)),
        five,
        plain(graph, "mixed.tower_1.conv_2", three, (1, 1)),
        plain(graph, "mixed.tower_2.conv", pooled, (0, 0)),
    ]
    # The folded tensors are rounded to single precision, nothing else.
    torch.testing.assert_close(ours, torch.cat(branches, dim=1), rtol=1e-5, atol=1e-5)


def test_the_last_block_takes_a_maximum_and_the_one_before_an_average() -> None:
    images = torch.zeros(1, 2048, 8, 8)
    images[:, :, 3, 3] = 1.0
    last, before = BlockE(2048, last=True), BlockE(2048, last=False)
    assert last.after_maximum is not None
    assert before.after_maximum is None
    for module in (last, before):
        for parameter in module.parameters():
            torch.nn.init.constant_(parameter, 1e-3 if parameter.ndim > 1 else 0.0)
    with torch.no_grad():
        assert last(images)[0, -1, 2, 2].item() == pytest.approx(2048e-3, rel=1e-4)
        assert before(images)[0, -1, 2, 2].item() == pytest.approx(2048e-3 / 9, rel=1e-4)
        assert max_pool2d(images, 3, stride=1, padding=1).sum() == 9 * 2048


def test_grey_is_three_equal_channels() -> None:
    network = Inception().eval()
    grey = torch.rand(1, 1, 299, 299) * 2 - 1
    with torch.inference_mode():
        torch.testing.assert_close(network(grey), network(grey.expand(-1, 3, -1, -1)), rtol=1e-4, atol=1e-6)


def test_blocks_keep_their_sizes() -> None:
    with torch.no_grad():
        assert BlockA(192, 32)(torch.zeros(1, 192, 5, 5)).shape == (1, 256, 5, 5)


@pytest.mark.slow
def test_agreement_with_the_published_script() -> None:
    """Set SIMULACRA_INCEPTION_SCRIPT to the published TorchScript file."""
    path = os.environ.get("SIMULACRA_INCEPTION_SCRIPT")
    if not path:
        pytest.skip("SIMULACRA_INCEPTION_SCRIPT names no file")
    tensors = weights._read(weights.find("inception"), Path(path))
    assert weights.contents_checksum(tensors) == weights.find("inception").contents
    network = Inception().eval()
    network.load_state_dict(tensors)
    images = torch.rand(4, 3, 299, 299, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        script = torch.jit.load(path)
    with torch.inference_mode():
        torch.testing.assert_close(network(images), script(images), rtol=1e-4, atol=1e-4)


def _with_true_sizes(
    graph: dict[str, torch.Tensor], mixed: str, sizes: tuple[int, int, int, int]
) -> dict[str, torch.Tensor]:
    """Redistribute the channels of a block's opening convolutions as published."""
    names = [f"net.layers.{mixed}.{source}" for source in ("conv", "tower.conv", "tower_1.conv", "tower_2.conv")]
    result = dict(graph)
    for part in ("weight", "beta", "mean", "var"):
        joint = torch.cat([graph[f"{name}.{part}"] for name in names])
        for name, piece in zip(names, joint.split(list(sizes)), strict=True):
            result[f"{name}.{part}"] = piece
    return result
