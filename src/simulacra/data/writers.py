"""Samples to files: streamed in bounded memory, written beside the target and renamed, so that no half file is left."""

from __future__ import annotations

import itertools
import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import torch

from simulacra.data.images import to_uint8
from simulacra.errors import OutputError, SchemaError, suggestion
from simulacra.schema import Schema

TABLE_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet")
COPY_BYTES = 1 << 20

EncodedBatch = tuple[torch.Tensor, torch.Tensor]
"""Inputs in [-1, 1] and class numbers."""


def check_new(path: str | Path) -> Path:
    """Refuse an output that exists, or whose folder does not."""
    path = Path(path)
    if path.exists() or path.is_symlink():
        raise OutputError(f'"{path}" exists already; choose another name or remove it')
    if not path.parent.is_dir():
        raise OutputError(f'no folder "{path.parent}" to write into; create it first')
    return path


def write_table(batches: Iterable[Any], path: str | Path, schema: Any = None) -> None:
    """Write Arrow tables, one after the other, to a CSV, TSV or Parquet file; give `schema` if there may be none."""
    path = check_new(path)
    name = path.name.lower()
    if not name.endswith(TABLE_SUFFIXES):
        raise OutputError(f'unknown kind of table file "{path}"; use one of {", ".join(TABLE_SUFFIXES)}')
    iterator = iter(batches)
    first = next(iterator, None)
    if first is not None:
        schema = first.schema
    elif schema is None:
        raise OutputError(f'no rows and no columns to write to "{path}"')
    rest = itertools.chain([] if first is None else [first], iterator)
    with _beside(path) as part:
        compression = "gzip" if name.endswith(".gz") else None
        with pa.output_stream(str(part), compression=compression) as sink, _writer(sink, name, schema) as writer:
            for table in rest:
                writer.write_table(table)


def write_npz(batches: Iterable[EncodedBatch], path: str | Path, schema: Schema) -> None:
    """Write images as an .npz file: `x` uint8 (n, height, width[, 3]) and, if there are classes, `y` int64."""
    path = check_new(path)
    if path.suffix.lower() != ".npz":
        raise OutputError(f'images go to an .npz file or a folder of PNGs, not to "{path}"')
    # The number of images stands in the header and is known only at the end: pixels wait in a file of their own.
    with _beside(path) as part, _beside(path.with_name(path.name + ".pixels"), keep=False) as spool:
        labels: list[np.ndarray[Any, np.dtype[np.int64]]] = []
        shape: tuple[int, ...] = ()
        with spool.open("wb") as pixels:
            for inputs, classes in batches:
                images = to_uint8(inputs, schema)
                shape = images.shape[1:]
                pixels.write(np.ascontiguousarray(images).tobytes())
                labels.append(classes.detach().cpu().numpy().astype(np.int64))
        joined = np.concatenate(labels) if labels else np.zeros(0, dtype=np.int64)
        shape = shape or to_uint8(torch.zeros(0, schema.inputs), schema).shape[1:]
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
            with archive.open("x.npy", "w", force_zip64=True) as member, spool.open("rb") as pixels:
                header = {"descr": "|u1", "fortran_order": False, "shape": (len(joined), *shape)}
                np.lib.format.write_array_header_1_0(member, header)
                shutil.copyfileobj(pixels, member, COPY_BYTES)
            if schema.labelled:
                with archive.open("y.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, joined, allow_pickle=False)


def write_png_folder(batches: Iterable[EncodedBatch], path: str | Path, schema: Schema) -> None:
    """Write images as PNGs, in one subfolder per class if there are classes: the layout that `ImageSource` reads."""
    from PIL import Image

    path = check_new(path)
    for name in schema.class_names:
        if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
            raise SchemaError(f'image: the class "{name}" cannot name a folder; rename it')
    with _beside(path, folder=True) as part:
        folders = [part / name for name in schema.class_names] or [part]
        for folder in folders:
            folder.mkdir(exist_ok=True)
        counter = itertools.count()
        for inputs, classes in batches:
            for image, number in zip(to_uint8(inputs, schema), classes.tolist(), strict=True):
                folder = folders[number] if schema.class_names else part
                Image.fromarray(image).save(folder / f"{next(counter):07d}.png")


def write_samples(batches: Iterable[EncodedBatch], path: str | Path, schema: Schema) -> None:
    """Write encoded samples in the form that schema and name ask for: a table file, an .npz, or a PNG folder."""
    from simulacra.data.encode import arrow_schema, decode

    path = Path(path)
    if schema.image is None:
        tables = (decode(inputs, labels, schema) for inputs, labels in batches)
        write_table(tables, path, arrow_schema(schema))
    elif path.suffix.lower() == ".npz":
        write_npz(batches, path, schema)
    elif path.suffix:
        raise OutputError(f'unknown kind of image file "{path}"{suggestion(path.suffix, [".npz", "a folder name"])}')
    else:
        write_png_folder(batches, path, schema)


@contextmanager
def _beside(path: Path, *, folder: bool = False, keep: bool = True) -> Iterator[Path]:
    """A temporary neighbour that takes the target's place at the end, or is removed if anything goes wrong."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if folder:
            part.mkdir()
        yield part
        if keep:
            os.replace(part, path)
    except OSError as error:
        reason = error.strerror or "the disk may be full"
        raise OutputError(f'cannot write "{path}": {reason}; nothing was left behind') from None
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def _writer(sink: IO[bytes], name: str, schema: Any) -> Any:
    if name.endswith(".parquet"):
        from pyarrow import parquet

        return parquet.ParquetWriter(sink, schema, compression="zstd")
    from pyarrow import csv

    options = csv.WriteOptions(delimiter="\t" if name.endswith(".tsv") else ",")
    return csv.CSVWriter(sink, schema, write_options=options)
