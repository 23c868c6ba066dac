"""Rows of DP-MEPF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.rows.row import Family
from simulacra.methods.presets import preset

SMALL = {"cifar10": "small-16-cifar10.safetensors", "fashion-mnist": "small-16-fashion-mnist.safetensors"}
"""Five minutes of one core: simulacra pretrain small --widths 16,32,64 --data cifar10 --epochs 6 --side 28 --out ..."""
LOOKS_LIKE = {"mnist": "fashion-mnist", "fashion-mnist": "cifar10"}
"""Public images whose network is shown the private ones."""
PUBLIC = "resnet18-small-cifar10.safetensors"
"""For grey images, where the paper has a network trained on SVHN; in the folder encoders of the cache."""
NARROW = {"encoder.network": "resnet18-small", "encoder.weights": PUBLIC}
WIDER = {
    "encoder.network": "small",
    "encoder.widths": (64, 128, 256),
    "encoder.weights": "small-64-cifar10.safetensors",
}
TABLE_17 = (
    *("vgg11", "vgg13", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
    *("convnext-tiny", "convnext-small", "convnext-base", "convnext-large"),
    *("efficientnet-s", "efficientnet-m", "efficientnet-l"),
)


def families() -> list[Family]:
    """DP-MEPF: the paper's tables, projections where it collapses, and our own loss beside the tracked one."""

    def family(
        name: str, data: str, epsilons: Sequence[float | None], variant: str = "", *, labelled: bool = True, **more: Any
    ) -> Family:
        quick = {"training.precision": "bf16"}
        settings = {
            **preset("dp-mepf", name),
            **quick,
            **{key.replace("__", "."): value for key, value in more.items()},
        }
        return Family(
            method="dp-mepf",
            data=(data,),
            epsilons=epsilons,
            seeds=(0, 1, 2),
            settings=settings,
            variant=variant,
            labelled=labelled,
        )

    wide: tuple[float | None, ...] = (0.2, 0.5, 1, 2, 5, 10, None)
    # torchvision's VGG19 is for those who can download it; the other one comes out of a published package.
    # Its own last layer is read off the same pass; Inception would take hours of a processor for each release.
    usual = {"encoder__network": "vgg19-normalised", "stopping__proxy": "encoder"}
    found = []
    for data in ("mnist", "fashion-mnist"):  # Tables 1, 2, 10 and 11
        found += [
            family(data, data, (0.2, 1, 2, 5, 10, None), encoder__weights=PUBLIC),
            family(data, data, (0.2, 1, 2, 5, 10, None), "first", encoder__weights=PUBLIC, moments=1),
            family(
                data,
                data,
                (1, 10),
                "plain",
                encoder__weights=PUBLIC,
                denoise=True,
                training__loss="plain",
                training__steps=20_000,
                training__batch=500,
                training__learning_rate=1e-3,
                training__final_rate=0.05,
                training__average=0.999,
            ),
        ]
        # Without a GPU: a network of 72,000 weights, which sees fewer features, so that they have less noise.
        found.append(
            family(
                data,
                data,
                (1, 10, None),
                "small",
                encoder__network="small",
                encoder__widths=(16, 32, 64),
                encoder__weights=SMALL["cifar10"],
                denoise=True,
                training__loss="plain",
                training__precision="single",
                training__steps=2000,
                training__batch=200,
                training__learning_rate=2e-3,
                training__final_rate=0.05,
                training__average=0.999,
            )
        )
        # An hour of one core for three seeds at each epsilon, chosen on held-back training images of MNIST.
        quarter = {
            "encoder.network": "small",
            "encoder.widths": (16, 32, 64),
            "encoder.weights": SMALL[LOOKS_LIKE[data]],
            "layers.even": True,
            "layers.centred": True,
            "training.steps": 8000,
            "training.batch": 60,
            "training.learning_rate": 6e-3,
        }
        # With the noise as it was released, and fewer steps: chosen on held-back training images of Fashion-MNIST.
        as_released = {**quarter, "denoise": False, "training.steps": 4000}
        for variant, settings in (("small-averaged", quarter), ("small-as-released", as_released)):
            found.append(_grey_family(data, variant, settings))
        # Networks of small photos, trained in a minute of a GPU: simulacra pretrain --data cifar10 --side 28 ...
        for variant, network in (("small64", WIDER), ("resnet18", NARROW)):
            found.append(_grey_family(data, variant, {**network, "training.precision": "bf16"}))
        # A network of photos as it comes, at our defaults, where none was trained for grey images; and for a processor.
        centred = {"layers.even": True, "layers.centred": True}
        brief = {
            **centred,
            "training.loss": "plain",
            "training.precision": "single",
            "training.steps": 1500,
            "training.batch": 100,
            "training.learning_rate": 2e-3,
            "training.average": 0.99,
        }
        for variant, more in (("vgg19", {}), ("vgg19-centred", centred), ("vgg19-brief", brief)):
            settings = {"encoder.network": "vgg19-normalised", "training.precision": "bf16", **more}
            found.append(_grey_family(data, variant, settings))
    # Tables 5, 6, 14, 15 and 16, and Table 4: the proxy's choice beside the end of training.
    found += [
        family("cifar10", "cifar10", wide, **usual),
        family("cifar10", "cifar10", wide, "first", moments=1, **usual),
        family("cifar10", "cifar10", (0.2, 0.5, 1), "first-last", moments=1, stopping__choice="last", **usual),
        family(
            "cifar10",
            "cifar10",
            (0.2, 0.5, 1),
            "first-inception",
            moments=1,
            **{**usual, "stopping__proxy": "inception"},
        ),
        family("cifar10-unlabelled", "cifar10", wide, "unlabelled", labelled=False, **usual),
        family("cifar10-unlabelled", "cifar10", wide, "unlabelled-first", labelled=False, moments=1, **usual),
        family("celeba", "celeba", wide, **usual),
        family("celeba", "celeba", wide, "first", moments=1, **usual),
        family("celeba-64", "celeba-64", wide, **usual),
        family("celeba-64", "celeba-64", wide, "first", moments=1, **usual),
        family("celeba-64", "celeba-64", (0.2, 0.5, 1), "first-last", moments=1, stopping__choice="last", **usual),
    ]
    plain = {
        "denoise": True,
        "training__loss": "plain",
        "training__steps": 50_000,
        "training__batch": 512,
        "training__final_rate": 0.05,
        "training__average": 0.999,
    }
    found += [
        family("cifar10", "cifar10", (0.2, 1, 2, 10, None), "plain", **usual, **plain),
        family("cifar10-unlabelled", "cifar10", (1, 10, None), "unlabelled-plain", labelled=False, **usual, **plain),
    ]
    found += _short_families()
    # Fewer numbers to add noise to; the directions are of images that have nothing to do with the private ones.
    for directions in (16, 64, 256):
        found.append(
            family(
                "cifar10",
                "cifar10",
                (0.2, 0.5, 1),
                f"random{directions}",
                projection__source="random",
                projection__directions=directions,
                **usual,
            )
        )
    public = "directions-fashion-mnist.safetensors"
    found.append(family("cifar10", "cifar10", (0.2, 0.5, 1), "directions", projection__source=public, **usual))
    for network in TABLE_17:
        for moments, ending in ((2, ""), (1, "-first")):
            found.append(
                family(
                    "cifar10-unlabelled",
                    "cifar10",
                    (0.2, None),
                    f"unlabelled-{network}{ending}",
                    labelled=False,
                    moments=moments,
                    encoder__network=network,
                    stopping__proxy="encoder",
                )
            )
    # Table 18: the same private images through networks that learned from other public ones.
    small = {"encoder__network": "resnet18-small", "stopping__proxy": "encoder"}
    found.append(family("celeba", "celeba", (0.2,), "public-imagenet", **{**small, "encoder__network": "resnet18"}))
    for public in ("cifar10", "svhn"):
        weights = f"resnet18-small-{public}.safetensors"
        found.append(family("celeba", "celeba", (0.2,), f"public-{public}", encoder__weights=weights, **small))
    return found


def _grey_family(data: str, variant: str, settings: Mapping[str, Any]) -> Family:
    """Our own ways with grey images, which no table of the paper has."""
    return Family(
        method="dp-mepf",
        data=(data,),
        epsilons=(0.2, 1, 10, None),
        seeds=(0, 1, 2),
        settings={"training.loss": "averaged", **settings},
        variant=variant,
    )


def _short_families() -> list[Family]:
    """DP-MEPF on CIFAR-10 at its defaults, a twentieth of the published steps; and without what they add."""

    def family(epsilons: Sequence[float | None], variant: str, labelled: bool = True, **more: Any) -> Family:
        return Family(
            method="dp-mepf",
            data=("cifar10",),
            epsilons=epsilons,
            seeds=(0, 1, 2),
            settings={
                "encoder.network": "vgg19-normalised",
                "stopping.proxy": "encoder",
                "training.loss": "averaged",
                "training.precision": "bf16",
                **{key.replace("__", "."): value for key, value in more.items()},
            },
            variant=variant,
            labelled=labelled,
        )

    few = (0.2, 0.5, 1)
    return [
        family((0.2, 0.5, 1, 2, 10, None), "short"),
        family(few, "short-noisy", denoise=False),
        family((*few, None), "short-random64", projection__source="random", projection__directions=64),
        # Each layer as long as any other; and the eight or four deepest alone, a seventh and a 37th of the numbers.
        family((*few, None), "short-even", layers__even=True),
        family((*few, None), "short-last8", layers__even=True, layers__last=8),
        family((*few, None), "short-last4", layers__even=True, layers__last=4),
        # About the mean of invented pictures, which all images share; the first moment alone, as at small epsilons.
        family((*few, 2, 10, None), "short-centred", layers__even=True, layers__centred=True),
        family((*few, None), "short-first", moments=1),
        family((*few, None), "short-first-centred", moments=1, layers__even=True, layers__centred=True),
        family((*few, None), "short-last8-centred", layers__even=True, layers__centred=True, layers__last=8),
        family(few, "short-directions", projection__source="directions-fashion-mnist.safetensors"),
        family((0.2, 1, 10, None), "unlabelled-short", labelled=False),
        family((0.2, 1), "unlabelled-short-noisy", labelled=False, denoise=False),
    ]
