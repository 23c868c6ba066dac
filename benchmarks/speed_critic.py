"""Speed and memory of a private critic step, against Opacus and against no privacy, in one run.

    python -m benchmarks.speed critic

Opacus is pure Python and need not be installed: put it and opt-einsum into a folder on PYTHONPATH
(`pip install --no-deps --target FOLDER opacus opt-einsum`). Without it the other rows are measured.
"""

from __future__ import annotations

import gc
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import one_hot, softplus

from benchmarks.speed_networks import DEVICE, _wait

BATCHES = (128, 512, 2048) if DEVICE == "cuda" else (32, 128)
SECONDS = 3.0 if DEVICE == "cuda" else 6.0
CLIP, NOISE = 1.0, 2.0
PIXELS, CLASSES = 784, 10


def critic() -> dict[str, Any]:
    """Steps a second and peak memory: a real and a fake batch, clipped, noise, Adam; the 1.72 M critic for digits."""
    rows: list[dict[str, Any]] = []
    for batch in BATCHES:
        for name, make in _kinds().items():
            try:
                steps, megabytes = _measured(make(batch))
            except (ImportError, RuntimeError, NotImplementedError) as error:
                rows.append({"batch": batch, "kind": name, "skipped": str(error).splitlines()[0][:200]})
            else:
                rows.append({"batch": batch, "kind": name, "steps_per_second": steps, "peak_megabytes": megabytes})
            print(rows[-1], flush=True)
    return {"device": DEVICE, "rows": rows, "ratios": _ratios(rows)}


def _kinds() -> dict[str, Callable[[int], Callable[[], None]]]:
    kinds: dict[str, Callable[[int], Callable[[], None]]] = {"ours": _ours}
    if DEVICE == "cuda":
        kinds["ours, single"] = partial(_ours, precision="single")
        kinds["not private, bfloat16"] = partial(_not_private, halves=True)
    return {
        **kinds,
        "opacus": lambda batch: _opacus(batch, "hooks"),
        "opacus, ghost": lambda batch: _opacus(batch, "ghost"),
        "not private": _not_private,
    }


def _ratios(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """For each batch: how many times faster than the better Opacus, and the share of the rate without privacy."""
    found: dict[str, Any] = {}
    for batch in BATCHES:
        rate = {row["kind"]: row["steps_per_second"] for row in rows if row["batch"] == batch and "skipped" not in row}
        ours = rate.get("ours", 0.0)
        theirs = max((rate[kind] for kind in rate if kind.startswith("opacus")), default=None)
        found[str(batch)] = {
            "times_opacus": None if theirs is None else ours / theirs,
            "share_of_not_private": ours / rate["not private"] if "not private" in rate else None,
        }
    return found


def _ours(batch: int, precision: str = "mixed") -> Callable[[], None]:
    """The step of DP-GAN on a Poisson batch in padded slots; sampling included, generator not."""
    from simulacra.data.points import PixelPoints
    from simulacra.features.critic_losses import FakeLoss, RealLoss
    from simulacra.features.gradient import LossGradient
    from simulacra.gradients.arithmetic import Precision
    from simulacra.gradients.padding import captured, slots_for
    from simulacra.gradients.summing import GradientSums
    from simulacra.privacy.noise import NoiseSource

    network = _critic()
    sizes: dict[str, Any] = {"classes": CLASSES, "bound": CLIP}
    real_sums = GradientSums(
        RealLoss(network, PixelPoints(PIXELS)), inputs=PIXELS, precision=Precision(precision), **sizes
    )
    real = LossGradient(real_sums, inputs=PIXELS, slots=slots_for(batch, real_sums))
    fake_sums = GradientSums(FakeLoss(network), inputs=PIXELS, precision=Precision(precision), **sizes)
    records, labels = _invented(60 * batch)
    fakes, fake_labels = _invented(batch)
    noise = NoiseSource()
    device = torch.device(DEVICE)
    flat = torch.zeros(real.size, device=device)
    weights = real.sums.parameters
    for weight, part in zip(weights, flat.split([each.numel() for each in weights]), strict=True):
        weight.grad = part.view_as(weight)
    optimiser = _adam(weights)
    if real.sums.precision is not Precision(precision) and DEVICE == "cuda":
        print(f"the kernels for {precision} precision were not steady; {real.sums.precision} is measured", flush=True)
    sum_over_fakes = captured(lambda: fake_sums(fakes, fake_labels), device)

    def step() -> None:
        chosen = noise.poisson(len(records), 1 / 60, device)
        total = real.clipped_sum(records[chosen], labels[chosen])
        total = total + noise.fast(total, NOISE * CLIP) + sum_over_fakes()
        flat.copy_(total / (2 * batch))
        optimiser.step()

    return step


def _opacus(batch: int, mode: str) -> Callable[[], None]:
    """The same with Opacus: real and fake records in one batch, as the published code has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
        from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

        try:
            from opacus import GradSampleModule, GradSampleModuleFastGradientClipping
        except ImportError:
            from opacus.grad_sample import GradSampleModule
            from opacus.grad_sample import (
                grad_sample_module_fast_gradient_clipping as _fast,  # type: ignore[attr-defined]
            )

            GradSampleModuleFastGradientClipping = _fast.GradSampleModuleFastGradientClipping
    inner = _Planes(_critic()).to(DEVICE)
    records, labels = _invented(60 * batch)
    fakes, fake_labels = _invented(batch)
    loss_function = nn.BCEWithLogitsLoss(reduction="mean")
    shared: dict[str, Any] = {"noise_multiplier": NOISE, "max_grad_norm": CLIP, "expected_batch_size": 2 * batch}
    if mode == "hooks":
        model = GradSampleModule(inner)
        optimiser = DPOptimizer(torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.5, 0.999)), **shared)
        criterion: Any = loss_function
    else:
        model = GradSampleModuleFastGradientClipping(inner, max_grad_norm=CLIP, use_ghost_clipping=True)
        optimiser = DPOptimizerFastGradientClipping(
            torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.5, 0.999)), **shared
        )
        criterion = DPLossFastGradientClipping(model, optimiser, loss_function)

    def step() -> None:
        chosen = (torch.rand(len(records), device=DEVICE) < 1 / 60).nonzero().squeeze(1)
        both = torch.cat([records[chosen], fakes])
        targets = torch.cat([torch.ones(len(chosen), device=DEVICE), torch.zeros(batch, device=DEVICE)])
        logits = model(both, torch.cat([labels[chosen], fake_labels]))
        loss = criterion(logits.unsqueeze(1), targets.unsqueeze(1))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def _not_private(batch: int, halves: bool = False) -> Callable[[], None]:
    """Plain backpropagation on a fixed batch, as fast as torch goes without capturing; in TF32 on a GPU, or less."""
    network = _critic()
    records, labels = _invented(batch)
    fakes, fake_labels = _invented(batch)
    optimiser = _adam(list(network.parameters()))

    def step() -> None:
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=halves):
            logits = network(torch.cat([records, fakes]), torch.cat([labels, fake_labels])).float()
        signs = torch.cat([-torch.ones(batch, device=DEVICE), torch.ones(batch, device=DEVICE)])
        optimiser.zero_grad()
        softplus(signs * logits).mean().backward()
        optimiser.step()

    return step


class _Planes(nn.Module):
    """The critic with a plain convolution of one-hot planes, which Opacus knows."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.image, self.rest = network.image, network.rest
        self.label = nn.Conv2d(CLASSES, network.label.weight.shape[0], 4, 2, 1)

    def forward(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        planes = one_hot(labels, CLASSES).to(points)[:, :, None, None].expand(-1, -1, 28, 28)
        maps = torch.cat([self.image(points.view(-1, 1, 28, 28)), self.label(planes)], dim=1)
        logits: torch.Tensor = self.rest(maps)
        return logits.flatten()


def _critic() -> Any:
    from simulacra.networks.critics import CriticOptions, build_critic
    from simulacra.schema import ImageShape

    torch.manual_seed(0)
    image = ImageShape(height=28, width=28, classes=tuple("0123456789"))
    return build_critic(CriticOptions(), image=image, width=PIXELS, classes=CLASSES).to(DEVICE)


def _invented(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return (
        (torch.rand(count, PIXELS, generator=random) * 2 - 1).to(DEVICE),
        torch.randint(0, CLASSES, (count,), generator=random).to(DEVICE),
    )


def _adam(weights: list[nn.Parameter]) -> torch.optim.Adam:
    if DEVICE != "cuda":
        return torch.optim.Adam(weights, lr=2e-4, betas=(0.5, 0.999))
    return torch.optim.Adam(weights, lr=2e-4, betas=(0.5, 0.999), fused=True)


def _measured(step: Callable[[], None]) -> tuple[float, float]:
    """Steps a second over a few seconds after warming up, and the peak of memory above what there was before.

    On a processor the seconds are those of this process alone, as one thread: others may be busy on the machine.
    """
    gc.collect()
    with _Peak() as peak, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3 if DEVICE == "cuda" else 1):
            step()
        _wait()
        clock = time.perf_counter if DEVICE == "cuda" or torch.get_num_threads() > 1 else time.process_time
        start, steps = clock(), 0
        while clock() - start < SECONDS:
            step()
            steps += 1
            _wait()
        rate = steps / (clock() - start)
    return rate, peak.megabytes


class _Peak:
    """Peak memory: the device's own count on a GPU, samples of the process's size elsewhere."""

    def __enter__(self) -> _Peak:
        self._done = threading.Event()
        self.megabytes = 0.0
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        else:
            self._before = _resident()
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if DEVICE == "cuda":
            self.megabytes = torch.cuda.max_memory_allocated() / 2**20
        else:
            self._done.set()
            self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.01):
            self.megabytes = max(self.megabytes, _resident() - self._before)


def _resident() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20
