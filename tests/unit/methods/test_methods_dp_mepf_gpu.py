"""On a GPU: recorded steps are the plain ones, and a run goes on from its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from simulacra.features.unit_sums import unit_sums
from simulacra.features.views import Perceived
from simulacra.generators import GeneratorOptions, build
from simulacra.methods import perceptual_matching
from simulacra.methods.base import Context
from simulacra.methods.perceptual_matching import PerceptualTraining, match_moments
from simulacra.networks.small_encoder import SmallEncoder
from simulacra.schema import ImageShape, Schema

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="recorded CUDA graphs exist on a GPU only; run there"
)

IMAGE = ImageShape(height=32, width=32, channels=3, classes=("a", "b"))
SHARES = torch.tensor([0.5, 0.5])


def trained(training: PerceptualTraining, context: Context) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        view = Perceived(IMAGE, SmallEncoder((8, 16)), name="small")
        generator = build(Schema(image=IMAGE), GeneratorOptions(latent=8))
        points = torch.rand(40, IMAGE.pixels)
    averaging = torch.zeros(2, 40)
    averaging[0, :20] = averaging[1, 20:] = 1 / 20
    with torch.no_grad():
        targets = dict(zip((1, 2), unit_sums(averaging, view.layers(points), (1, 2)), strict=True))
    return match_moments(generator, view, targets=targets, shares=SHARES, training=training, context=context)


@pytest.mark.parametrize("loss", ["plain", "averaged", "tracked"])
def test_a_recorded_step_is_the_plain_one(loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    training = PerceptualTraining(steps=5, batch=16, loss=loss, average=0.9)
    recorded = trained(training, Context(device="cuda"))
    monkeypatch.setattr(perceptual_matching, "replayable", lambda step, *_: step)
    plain = trained(training, Context(device="cuda"))
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(recorded.state_dict()[name], value, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("precision", ["single", "bf16"])
@pytest.mark.parametrize("loss", ["plain", "averaged", "tracked"])
def test_training_comes_nearer_to_the_target(loss: Any, precision: Any, fused: bool) -> None:
    context = Context(device="cuda")
    trained(
        PerceptualTraining(steps=100, batch=32, loss=loss, precision=precision, tracking_rate=5e-3, fused=fused),
        context,
    )
    assert context.curve[-1][1] < 0.7 * context.curve[0][1]


def test_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    training = PerceptualTraining(steps=40, batch=16, loss="tracked")

    def interrupt(step: int, steps: int, loss: float) -> None:
        if step == 23:
            raise KeyboardInterrupt

    cut = Context(device="cuda", checkpoint=tmp_path, on_step=interrupt)
    trained(training, cut)
    assert cut.stopped_early
    again = Context(device="cuda", checkpoint=tmp_path)
    trained(training, again)
    assert [step for step, _ in again.curve] == list(range(1, 41))
