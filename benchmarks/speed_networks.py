"""Speed of neural tangent features, of Inception statistics and of training, against the plain version in one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def tangent() -> dict[str, Any]:
    """DP-NTK's embedding of 60,000 images of 784 pixels at width 800, against its matrix products and a loop."""
    from simulacra.data.points import PixelPoints
    from simulacra.features.combine import PerClass
    from simulacra.features.tangent import Tangent
    from simulacra.features.tangent_networks import OneHidden
    from simulacra.privacy.records import Records
    from simulacra.privacy.summing import add_chunks

    images, pixels, classes, width, looped = 60_000, 784, 10, 800, 500
    random = torch.Generator().manual_seed(0)
    inputs = torch.rand(images, pixels, generator=random) * 2 - 1
    labels = torch.randint(0, classes, (images,), generator=random)
    map_ = Tangent(PixelPoints(pixels), OneHidden(pixels, (width,), classes), seed=0)
    per_class = PerClass(map_, classes)
    doubles, signals = inputs.double(), torch.rand(images, width, generator=random, dtype=torch.float64)
    weight = torch.rand(width, pixels, generator=random, dtype=torch.float64)
    sizes = torch.bincount(labels, minlength=classes).tolist()

    def whole() -> None:
        total = torch.zeros(per_class.shape, dtype=torch.float64)
        for start in range(0, images, 4096):
            part = Records(inputs=inputs[start : start + 4096], labels=labels[start : start + 4096])
            add_chunks(total, per_class, part)

    def class_product() -> None:
        for signal, points in zip(signals.split(sizes), doubles.split(sizes), strict=True):
            signal.T @ points

    def forward_product() -> None:
        for start in range(0, images, 4096):
            doubles[start : start + 4096] @ weight.T

    def loop() -> None:
        """The specification: a gradient per record, made one vector of norm 1 and added to its class."""
        total = torch.zeros(per_class.shape, dtype=torch.float64)
        for row, label in zip(doubles[:looped], labels[:looped].tolist(), strict=True):
            total[label] += map_.specified((row + 1) / 2)

    per_sample = seconds(loop, times=1) / looped * images
    took, product, forward = seconds(whole), seconds(class_product), seconds(forward_product)
    return {
        "seconds": took,
        "class_product_seconds": product,
        "forward_product_seconds": forward,
        "ratio_to_both_products": took / (product + forward),
        "ratio_to_class_product": took / product,
        "autograd_loop_seconds_extrapolated": per_sample,
        "times_faster_than_loop": per_sample / took,
    }


def inception() -> dict[str, Any]:
    """Statistics of grey images against the network's forward pass alone; invented pixels and weights will do."""
    import numpy as np

    from simulacra.evaluate.fidelity.extraction import Extractor, prepare
    from simulacra.evaluate.fidelity.statistics import collect
    from simulacra.networks.inception import Inception

    count = 10_000 if DEVICE == "cuda" else 128
    images = np.random.default_rng(0).integers(0, 256, (count, 28, 28, 1), dtype=np.uint8)
    extractor = Extractor(device=DEVICE, network=Inception())
    batch = 500 if DEVICE == "cuda" else 32
    ready = prepare(torch.from_numpy(images[:batch]).to(DEVICE))

    def forward() -> None:
        with torch.inference_mode(), extractor._arithmetic():
            for _ in range(count // batch):
                extractor._ready(ready)
        _wait()

    def statistics() -> None:
        collect(images, extractor)
        _wait()

    alone, whole = seconds(forward), seconds(statistics)
    return {
        "images": count,
        "device": DEVICE,
        "forward_seconds": alone,
        "statistics_seconds": whole,
        "ratio": whole / alone,
    }


def upsampling() -> dict[str, Any]:
    """A step of the small image generator, batch 1,000, against the usual upsampling and convolution."""
    from torch import nn

    from simulacra.generators.image import ConvolutionalGenerator
    from simulacra.schema import ImageShape

    shape = ImageShape(height=28, width=28, classes=tuple("0123456789"))
    ours = ConvolutionalGenerator(shape, 10, latent=20, hidden=500).to(DEVICE)
    plain = ConvolutionalGenerator(shape, 10, latent=20, hidden=500).to(DEVICE)
    usual = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
    plain.convolutions = nn.Sequential(
        usual, nn.Conv2d(16, 8, 5, padding=2), nn.ReLU(), usual, nn.Conv2d(8, 1, 5, padding=2), nn.Sigmoid()
    ).to(DEVICE)
    noise = torch.randn(1000, 20, device=DEVICE)
    labels = torch.nn.functional.one_hot(torch.arange(1000, device=DEVICE) % 10, 10).float()

    def step(network: nn.Module) -> Callable[[], None]:
        def work() -> None:
            torch.autograd.grad(network(noise, labels).square().sum(), list(network.parameters()))
            _wait()

        return work

    quick, slow = seconds(step(ours), times=10), seconds(step(plain), times=10)
    return {"device": DEVICE, "seconds": quick, "plain_seconds": slow, "times_faster": slow / quick}


def seconds(work: Callable[[], Any], times: int = 3) -> float:
    """The quickest of several goes, after one to warm up."""
    work()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def _wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()
