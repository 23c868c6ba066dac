"""Encoders: the published architectures, the numbers of features that the paper counts, and weights that must fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from simulacra.errors import DataError, SettingError
from simulacra.networks import encoder_files, encoders, weights
from simulacra.networks.encoder import Encoder
from simulacra.networks.small_encoder import SmallEncoder


def images(count: int = 2, side: int = 32, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(seed))


def size(encoder: Encoder, side: int = 32) -> int:
    with torch.no_grad():
        return sum(each[0].numel() for each in encoder.maps(images(1, side)))


@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("vgg11", 151_552),
        ("vgg13", 249_856),
        ("vgg16", 276_480),
        ("vgg19", 303_104),
        ("vgg19-normalised", 303_104),
        ("resnet18", 47_104),
        ("resnet34", 72_704),
    ],
)
def test_the_features_are_as_many_as_the_paper_counts(name: str, features: int) -> None:
    """Table 17 of Harder et al. (2023), for images of 32 x 32 pixels."""
    assert size(encoders.build(name)) == features


def test_larger_images_have_more_features() -> None:
    assert size(encoders.build("vgg19-normalised"), 64) == 1_212_416


@pytest.mark.parametrize("name", ["vgg11", "vgg19-normalised", "resnet18", "resnet50", "resnet18-small", "small"])
def test_an_image_is_seen_alike_alone_and_among_others(name: str) -> None:
    encoder = encoders.build(name).double()
    many = images(4).double()
    with torch.no_grad():
        for together, alone in zip(encoder.maps(many), encoder.maps(many[2:3]), strict=True):
            torch.testing.assert_close(together[2:3], alone)


@pytest.mark.parametrize("name", ["convnext-tiny", "efficientnet-s"])
def test_every_encoder_looks_at_an_image(name: str) -> None:
    assert size(encoders.build(name)) > 50_000


@pytest.mark.parametrize("name", ["vgg11", "vgg19-normalised", "resnet18", "resnet50", "resnet18-small", "small"])
def test_what_is_picked_up_on_the_way_is_what_hooks_see(name: str) -> None:
    """All of them but ConvNeXt and EfficientNet have a way of their own, which a compiler can follow."""
    encoder = encoders.build(name)
    assert type(encoder).maps is not Encoder.maps
    with torch.no_grad():
        own, hooked = encoder.maps(images()), Encoder.maps(encoder, images())
    assert len(own) == len(hooked) == len(encoder.watched)
    assert all(torch.equal(a, b) for a, b in zip(own, hooked, strict=True))


def test_looking_leaves_no_hook_behind() -> None:
    encoder = encoders.build("convnext-tiny")
    encoder.maps(images())
    assert all(not layer._forward_hooks for layer in encoder.modules())


def test_the_largest_networks_have_as_many_convolutions_as_their_name_says() -> None:
    with torch.device("meta"):
        found = {name: encoders.build(name) for name in ("resnet50", "resnet101", "resnet152")}
    for name, encoder in found.items():
        convolutions = [m for m in encoder.modules() if isinstance(m, torch.nn.Conv2d)]
        assert len(convolutions) == int(name.removeprefix("resnet")) - 1 + 4  # and four on the ways past


def torchvision_names(name: str) -> dict[str, torch.Tensor]:
    """A state dict as torchvision publishes it: with a head, and for networks of before 2019 without counters."""
    found = {k: v.clone() for k, v in encoders.build(name).state_dict().items()}
    return {k: v for k, v in found.items() if "num_batches" not in k} | {
        "classifier.0.weight" if name.startswith("vgg") else "fc.weight": torch.zeros(2, 2)
    }


@pytest.mark.parametrize("name", ["vgg11", "resnet18"])
def test_published_weights_are_taken_without_their_head(name: str) -> None:
    encoder = encoders.fill(encoders.build(name), torchvision_names(name), name=name, source="there")
    assert not encoder.training
    assert not any(weight.requires_grad for weight in encoder.parameters())


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda t: t.pop("conv1.weight"), "it lacks conv1.weight"),
        (lambda t: t.update({"layer9.weight": torch.zeros(1)}), "it has besides layer9.weight"),
        (lambda t: t.update({"conv1.weight": torch.zeros(1)}), "it has in another shape conv1.weight"),
        (lambda t: t["conv1.weight"].fill_(torch.nan), "not finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused_in_one_line(harm: Any, says: str) -> None:
    tensors = torchvision_names("resnet18")
    harm(tensors)
    with pytest.raises(DataError, match=says) as error:
        encoders.fill(encoders.build("resnet18"), tensors, name="resnet18", source="there")
    assert "\n" not in str(error.value)


def test_unknown_encoders_and_those_without_published_weights_say_what_to_do() -> None:
    with pytest.raises(SettingError, match='unknown encoder "vgg18"; did you mean "vgg19"'):
        encoders.build("vgg18")
    with pytest.raises(SettingError, match="simulacra pretrain small"):
        encoder_files.load("small")


def test_missing_published_weights_say_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMULACRA_CACHE", str(tmp_path))
    with pytest.raises(DataError, match="simulacra weights get vgg19-normalised"):
        encoder_files.load("vgg19-normalised")


def test_a_file_of_ours_says_what_it_learned_from_and_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "mine.safetensors"
    tensors = SmallEncoder((4, 6)).state_dict()
    checksum = encoder_files.save(file, tensors, {"data": "some pictures"})
    loaded = encoder_files.load("small", file=file, widths=(4, 6))
    assert (loaded.public_data, loaded.checksum) == ("some pictures", checksum)
    assert checksum in file.with_suffix(".json").read_text()
    with pytest.raises(DataError, match='do not fit the encoder "small"'):
        encoder_files.load("small", file=file, widths=(4, 8))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match="changed or cut short"):
        encoder_files.load("small", file=file, widths=(4, 6))
    file.write_bytes(content[:50])
    with pytest.raises(DataError, match="damaged"):
        encoder_files.load("small", file=file, widths=(4, 6))
    with pytest.raises(DataError, match="no file"):
        encoder_files.load("small", file=tmp_path / "absent.safetensors")


def test_a_file_without_a_header_is_taken_and_said_to_be_of_unnamed_data(tmp_path: Path) -> None:
    file = tmp_path / "plain.safetensors"
    save_file(SmallEncoder((4,)).state_dict(), file)
    assert encoder_files.load("small", file=file, widths=(4,)).public_data == encoder_files.UNSAID


def test_a_pth_file_that_nobody_published_is_not_opened(tmp_path: Path) -> None:
    file = tmp_path / "resnet18-f37072fd.pth"
    torch.save(torchvision_names("resnet18"), file)
    with pytest.raises(DataError, match="does not have a published checksum of the resnet18 weights"):
        encoder_files.load("resnet18", file=file)


def test_of_torchvisions_checksums_the_published_beginning_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    monkeypatch.setenv("SIMULACRA_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "other.pth"
    torch.save(torchvision_names("resnet18"), file)
    entry = weights.CATALOGUE["resnet18"]
    remote = dataclasses.replace(entry.remotes[0], checksum=weights._digest(file)[:8], urls=(file.as_uri(),))
    monkeypatch.setitem(weights.CATALOGUE, "resnet18", dataclasses.replace(entry, remotes=(remote,)))
    save_file({"a": torch.zeros(1)}, tmp_path / "own.safetensors")
    with pytest.raises(DataError, match="nobody vouches"):
        weights.import_file("resnet18", tmp_path / "own.safetensors")
    path = weights.get("resnet18")
    loaded = encoder_files.load("resnet18")
    assert loaded.public_data == "ImageNet"
    assert loaded.checksum == encoder_files.load("resnet18", file=file).checksum
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="checksum"):
        weights.load("resnet18")
