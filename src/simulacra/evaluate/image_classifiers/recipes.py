"""How each network is trained on synthetic images: one paper's protocol, one `Recipe`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simulacra.options import Options

MOST_CONDENSATION_STEPS = 10_000
"""The condensation papers train for 1,000 epochs on some 500 images, which are 2,000 steps. Sixty thousand images would
be 235,000; five times the papers' steps is past the point where more of them help."""


@dataclass(frozen=True, kw_only=True)
class Recipe(Options):
    """Everything that decides what a network learns, apart from its images and its seed."""

    network: str
    title: str
    citation: str
    optimiser: Literal["adam", "sgd"]
    rate: float
    """The learning rate; for a triangular schedule its peak, for a drop its first value."""
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: Literal["constant", "triangle", "drop"] = "constant"
    """Constant; from 0 up to the peak in mid-training and back to 0; or a tenth from mid-training on."""
    epochs: int
    most_steps: int | None = None
    """With many images there are fewer epochs, whole ones, so that no more than these steps are taken."""
    batch: int
    keep_last_batch: bool = True
    """Whether an epoch ends with the images that do not fill a batch, or leaves them out."""
    label_smoothing: float = 0.0
    augmentation: tuple[str, ...] = ()
    """Operations of `augmentation.py`, one drawn for each batch."""
    mirror: bool | None = None
    """Whether images may be mirrored. By default colour images, and not grey ones: those of the papers are digits,
    letters and the like, which mirroring makes wrong."""
    held_out: float = 0.0
    """The share of the synthetic images that is not trained on; the epoch most accurate on them counts. With none, the
    last epoch counts. Real images choose nothing."""
    normalisation: Literal["unit", "signed", "standard"] = "unit"
    """Inputs in [0, 1]; in [-1, 1]; or of mean 0 and deviation 1 per channel over the synthetic images."""
    mirrored_test: bool = False
    """Whether the scores of a test image and of its left-right mirror image are added up, where it may be mirrored."""
    arithmetic: Literal["float32", "tf32", "bfloat16"] = "float32"
    """On a GPU. A processor computes in float32, where it has no units for bfloat16 and where a recipe says float32;
    else its convolutions multiply bfloat16 numbers."""

    def mirrors(self, channels: int) -> bool:
        """Whether images of so many channels may be mirrored."""
        return channels == 3 if self.mirror is None else self.mirror


def _condensation(network: str, title: str) -> Recipe:
    return Recipe(
        network=network,
        title=title,
        citation="Zhao and Bilen 2023 (arXiv:2110.04181); Zheng and Li, Differentially Private Dataset Condensation",
        optimiser="sgd",
        rate=0.01,
        momentum=0.9,
        weight_decay=5e-4,
        schedule="drop",
        epochs=1000,
        most_steps=MOST_CONDENSATION_STEPS,
        batch=256,
        augmentation=("color", "crop", "cutout", "scale", "rotate"),
        normalisation="signed",
        arithmetic="tf32",
    )


RECIPES: dict[str, Recipe] = {
    "cnn": Recipe(
        network="cnn",
        title="Convolutional network of the DP-GAN papers",
        citation="Bie, Kamath and Zhang 2023, Private GANs, Revisited (arXiv:2302.02936)",
        optimiser="adam",
        rate=1e-3,
        epochs=10,
        batch=64,
        held_out=1 / 12,
    ),
    "resnet9": Recipe(
        network="resnet9",
        title="ResNet-9",
        citation="Harder et al. 2023, Pre-trained Perceptual Features (arXiv:2205.12900); Leclerc et al. 2023, FFCV",
        optimiser="sgd",
        rate=0.5,
        momentum=0.9,
        weight_decay=5e-4,
        schedule="triangle",
        epochs=10,
        batch=512,
        keep_last_batch=False,
        label_smoothing=0.1,
        normalisation="standard",
        mirrored_test=True,
        arithmetic="bfloat16",
    ),
    "convnet": _condensation("convnet", "ConvNet"),
    "mlp128": _condensation("mlp128", "Perceptron of the condensation papers"),
    "lenet": _condensation("lenet", "LeNet"),
    "alexnet": _condensation("alexnet", "AlexNet"),
    "vgg11": _condensation("vgg11", "VGG11"),
    "resnet18": _condensation("resnet18", "ResNet-18"),
}
