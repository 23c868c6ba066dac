"""Critics: the sizes of the paper, one number per record, and gradients the engine can follow."""

from __future__ import annotations

import pytest
import torch

from simulacra.data.points import PixelPoints
from simulacra.errors import SettingError
from simulacra.features.critic_losses import FakeLoss, RealLoss
from simulacra.generators import GeneratorOptions, build
from simulacra.gradients import specified
from simulacra.gradients.summing import GradientSums
from simulacra.networks.critics import CriticOptions, build_critic, halvings
from simulacra.schema import ImageShape, Schema

TEN = tuple("0123456789")
DIGITS = ImageShape(height=28, width=28, classes=TEN)
IMAGES = {
    "digits": DIGITS,
    "unlabelled": ImageShape(height=28, width=28),
    "colour": ImageShape(height=32, width=32, channels=3, classes=TEN),
    "faces": ImageShape(height=64, width=64, channels=3, classes=("no", "yes")),
    "tiny": ImageShape(height=4, width=4, classes=TEN),
    "uneven": ImageShape(height=9, width=5, classes=TEN),
}


def weights(network: torch.nn.Module) -> int:
    return sum(each.numel() for each in network.parameters())


def critic_for(image: ImageShape, **options: object) -> torch.nn.Module:
    torch.manual_seed(0)
    classes = max(1, len(image.classes))
    return build_critic(CriticOptions(**options), image=image, width=image.pixels, classes=classes)


def test_critic_and_generator_have_as_many_weights_as_in_the_paper() -> None:
    """1.72 M and 2.27 M (Bie, Kamath and Zhang 2023, section 3.1); the published code has exactly these."""
    assert weights(critic_for(DIGITS)) == 1_724_289
    assert weights(build(Schema(image=DIGITS), GeneratorOptions(kind="deconvolutional"))) == 2_272_129


@pytest.mark.parametrize("name", IMAGES)
def test_a_generator_makes_what_a_critic_judges(name: str) -> None:
    image = IMAGES[name]
    schema = Schema(image=image)
    generator = build(schema, GeneratorOptions(kind="deconvolutional", latent=8)).eval()
    critic = critic_for(image, channels=16)
    labels = torch.arange(3) % schema.classes
    one_hot = torch.nn.functional.one_hot(labels, schema.classes).float()
    points = generator(torch.randn(3, 8), one_hot)
    assert points.shape == (3, image.pixels)
    assert points.min() >= 0
    assert points.max() <= 1
    assert critic(points, labels).shape == (3,)
    records = generator.to_records(points, torch.Generator())
    assert records.min() >= -1
    assert records.max() <= 1


def test_large_colour_images_get_a_residual_critic_with_group_normalisation() -> None:
    kinds = {name: type(critic_for(image, channels=16)).__name__ for name, image in IMAGES.items()}
    assert kinds["colour"] == kinds["faces"] == "ResidualCritic"
    assert kinds["digits"] == kinds["uneven"] == "ConvolutionalCritic"
    layers = list(critic_for(IMAGES["colour"]).modules())
    assert any(isinstance(layer, torch.nn.GroupNorm) for layer in layers)
    assert not any(isinstance(layer, torch.nn.modules.batchnorm._NormBase) for layer in layers)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("digits", {}),
        ("unlabelled", {"channels": 8}),
        ("colour", {"channels": 8}),
        ("tiny", {"channels": 8}),
        ("uneven", {"channels": 8}),
        ("digits", {"kind": "dense", "hidden": (16,)}),
    ],
)
@pytest.mark.parametrize("bound", [1.0, 1e6])
def test_the_clipped_sum_of_a_whole_critic_equals_the_specification(
    name: str, options: dict[str, object], bound: float
) -> None:
    image = IMAGES[name]
    critic = critic_for(image, **options)
    classes = max(1, len(image.classes))
    inputs = torch.rand(5, image.pixels) * 2 - 1
    labels = torch.arange(5) % classes
    for loss in (RealLoss(critic, PixelPoints(image.pixels)), FakeLoss(critic)):
        sums = GradientSums(loss, inputs=image.pixels, classes=classes, bound=bound)
        assert not sums.slow
        sums.charging = False  # a little less is added than could be, for what float32 may lose
        right = specified.clipped_sum(loss, inputs, labels, bound)
        assert (sums(inputs, labels) - right).norm() <= 1e-5 * right.norm()


@pytest.mark.filterwarnings("ignore")
def test_the_clipped_sum_of_a_whole_critic_equals_that_of_opacus() -> None:
    """On a critic with plain convolutions of one-hot planes in the place of ours."""
    opacus = pytest.importorskip("opacus", reason="pip install opacus opt-einsum --no-deps")

    class Planes(torch.nn.Module):
        def __init__(self, like: torch.nn.Module) -> None:
            super().__init__()
            self.convolution = torch.nn.Conv2d(10, like.weight.shape[0], 4, 2, 1)
            self.convolution.load_state_dict(like.state_dict())

        def forward(self, labels: torch.Tensor) -> torch.Tensor:
            one_hot = torch.nn.functional.one_hot(labels, 10).to(self.convolution.weight)
            return self.convolution(one_hot[:, :, None, None].expand(-1, -1, 28, 28))

    critic = critic_for(DIGITS, channels=16).double()
    inputs, labels = torch.rand(4, 784, dtype=torch.float64), torch.tensor([3, 1, 3, 9])
    ours = GradientSums(FakeLoss(critic), inputs=784, classes=10, bound=1.0)(inputs, labels)
    critic.label = Planes(critic.label)
    model = opacus.GradSampleModule(FakeLoss(critic), loss_reduction="sum")
    model(inputs, labels).sum().backward()
    samples = torch.cat([each.grad_sample.flatten(1) for each in model.parameters()], dim=1)
    theirs = (samples / samples.norm(dim=1, keepdim=True).clamp(min=1.0)).sum(dim=0)
    assert (ours - theirs).norm() <= 1e-5 * theirs.norm()


@pytest.mark.parametrize("side", [4, 5, 8, 9, 16, 28])
@pytest.mark.parametrize("kind", ["convolutional", "dense"])
def test_what_a_critic_makes_of_an_image_depends_on_the_label(side: int, kind: str) -> None:
    """A sum of a part for the image and one for the label could never teach what a label looks like."""
    image = ImageShape(height=side, width=side, classes=TEN)
    critic = critic_for(image, kind=kind, channels=8)
    points, other = torch.rand(1, image.pixels), torch.rand(1, image.pixels)
    first, second = torch.tensor([0]), torch.tensor([1])
    mixed = critic(points, first) - critic(points, second) - critic(other, first) + critic(other, second)
    assert abs(float(mixed.detach())) > 1e-6


def test_sides_are_halved_down_to_four() -> None:
    assert halvings(28, 28) == [(28, 28), (14, 14), (7, 7), (4, 4)]
    assert halvings(4, 3) == [(4, 3)]


@pytest.mark.parametrize(
    ("image", "options", "words"),
    [
        (None, {"kind": "convolutional"}, 'set critic.kind="dense"'),
        (ImageShape(height=3, width=8), {"kind": "residual"}, 'set critic.kind="dense"'),
        (DIGITS, {"kind": "residual"}, 'set critic.kind="convolutional"'),
    ],
)
def test_a_critic_that_does_not_fit_says_which_does(
    image: ImageShape | None, options: dict[str, object], words: str
) -> None:
    with pytest.raises(SettingError, match=words):
        build_critic(CriticOptions(**options), image=image, width=24, classes=1)


@pytest.mark.parametrize("options", [{"channels": 0}, {"hidden": ()}, {"hidden": (0,)}])
def test_sizes_must_be_positive(options: dict[str, object]) -> None:
    with pytest.raises(SettingError, match=r"critic\."):
        CriticOptions(**options)
