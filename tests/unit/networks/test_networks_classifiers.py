"""The networks that judge images: sizes by hand, shapes, and sides that are too small."""

from __future__ import annotations

import pytest
import torch

from simulacra.errors import SettingError
from simulacra.networks.classifiers import NETWORKS, build
from simulacra.networks.condensation import extra_padding, seen
from simulacra.networks.convnet import ConvNet

# Weights and biases, counted by hand from the layers as the papers describe them.
PARAMETERS = {
    "cnn": (1, 28, 320 + 18_496 + 1_179_776 + 1_290),
    "resnet9": (3, 32, 1_728 + 204_800 + 2 * 147_456 + 294_912 + 2 * 589_824 + 294_912 + 1_280 + 2 * (64 + 1_280)),
    "convnet": (3, 32, 3_584 + 2 * 147_584 + 3 * 256 + 20_490),
    "mlp128": (3, 32, 393_344 + 16_512 + 1_290),
    "lenet": (1, 28, 156 + 2_416 + 48_120 + 10_164 + 850),
    "alexnet": (3, 32, 9_728 + 614_592 + 442_624 + 442_560 + 331_968 + 30_730),
    "vgg11": (3, 32, 1_792 + 73_856 + 295_168 + 590_080 + 1_180_160 + 3 * 2_359_808 + 2 * 2_752 + 5_130),
    "resnet18": (3, 32, 11_173_962),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_the_weights_its_description_comes_to(name):
    channels, side, expected = PARAMETERS[name]
    network = build(name, channels=channels, height=side, width=side, classes=10)
    assert sum(weights.numel() for weights in network.parameters()) == expected


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("channels", "height", "width"), [(1, 28, 28), (3, 32, 32), (1, 30, 33)])
def test_a_network_scores_every_class_of_every_image(name, channels, height, width):
    network = build(name, channels=channels, height=height, width=width, classes=7).eval()
    with torch.no_grad():
        scores = network(torch.rand(2, channels, height, width))
    assert scores.shape == (2, 7)
    assert scores.isfinite().all()


@pytest.mark.parametrize("name", NETWORKS)
def test_the_least_side_works_and_one_less_is_refused(name):
    least = NETWORKS[name].LEAST_SIDE
    network = build(name, channels=1, height=least, width=least, classes=3)
    scores = network(torch.rand(2, 1, least, least))
    assert scores.shape == (2, 3)
    if name != "mlp128":
        with pytest.raises(SettingError, match=f"{name} needs images of at least {least} x {least} pixels"):
            build(name, channels=1, height=least, width=least - 1, classes=3)


@pytest.mark.parametrize("name", ["convnet", "vgg11", "resnet18"])
def test_instance_normalisation_leaves_something_of_the_smallest_images(name):
    """On single pixels it would give the same score whatever the image."""
    least = NETWORKS[name].LEAST_SIDE
    network = build(name, channels=1, height=least, width=least, classes=3)
    with torch.no_grad():
        scores = network(torch.rand(2, 1, least, least))
    assert not torch.allclose(scores[0], scores[1])


@pytest.mark.parametrize("name", ["convnet", "alexnet", "vgg11", "resnet18", "lenet", "mlp128", "resnet9", "cnn"])
def test_no_image_sees_another_when_a_network_answers(name):
    network = build(name, channels=1, height=28, width=28, classes=4).eval()
    images = torch.rand(3, 1, 28, 28)
    with torch.no_grad():
        assert torch.allclose(network(images)[:1], network(images[:1]), atol=1e-5)


def test_an_unknown_network_is_named():
    with pytest.raises(SettingError, match='unknown classifier "lenett"; did you mean "lenet"'):
        build("lenett", channels=1, height=28, width=28, classes=10)


def test_28_pixels_are_seen_as_32_and_other_sides_as_they_are():
    assert [seen(side) for side in (8, 27, 28, 30, 32, 64)] == [8, 27, 32, 32, 32, 64]
    assert extra_padding(28) == 2


@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32)])
def test_the_embedding_of_the_convnet_has_2048_features(channels, side):
    network = ConvNet(channels=channels, height=side, width=side, classes=10)
    assert network.embed(torch.rand(2, channels, side, side)).shape == (2, 2048)


def test_the_normalisation_of_the_convnet_is_that_of_single_images():
    network = ConvNet(channels=3, height=32, width=32, classes=10)
    convolution, norm = network.features[0], network.features[1]
    images = torch.rand(2, 3, 32, 32)
    reference = torch.nn.functional.instance_norm(convolution(images))
    assert torch.allclose(norm(convolution(images)), reference, atol=1e-5)


def test_the_output_of_resnet9_is_scaled():
    network = build("resnet9", channels=3, height=32, width=32, classes=10).eval()
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(network(images), 0.2 * network.head(network.features(images)))
