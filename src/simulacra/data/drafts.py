"""`draft`: a schema with blanks to fill, made from names and declared types only. No value of the data is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import tomli_w

from simulacra.data.readers import SUFFIXES, close_name, open_table
from simulacra.errors import SchemaError
from simulacra.schema.toml import BLANK

_HEAD = f"""\
# A schema: all that is public about a record. Replace every "{BLANK}".
#
# Only names and declared types were copied here. Write bounds and values from public knowledge (a codebook, the
# meaning of the column), never by looking at the rows: what you write here is published with every result.
# Values outside the bounds are clamped, so round, generous numbers are good ones.

# Whose privacy one row is, in words.
unit = "record"

# The number of rows, if it is public.
# rows = 10000
"""

_LABEL = """
# The column to predict, if there is one; it must be categorical or boolean.
"""

_CHOICES = f"""\
# One of:
#   type = "numeric"       then: lower = 0, upper = 100; optional: integer = true, log = true (for skewed amounts)
#   type = "categorical"   then: values = ["a", "b"] or [1, 2]; optional: other = true (for all values not listed)
#   type = "boolean"
#   type = "datetime"      then: lower = 2000-01-01, upper = 2030-12-31 (or moments: 2000-01-01T00:00:00)
# and for each of them, where values may be missing: missing = true
type = "{BLANK}"
"""

_NUMERIC = f"""\
type = "numeric"
lower = "{BLANK}"
upper = "{BLANK}"
"""


def draft(data: Any, *, label: str | None = None) -> str:
    """The text of a schema file for a table or for images, with blanks where the owner has to decide."""
    if _is_images(data):
        return _draft_images(data)
    reader = open_table(data)
    reader.check()  # a quote that is never closed makes a header of many rows
    if label is not None and label not in reader.names:
        raise SchemaError(f'no column "{label}" in {reader.where}{close_name(label, reader.names)}')
    text = _HEAD + _LABEL
    text += f"label = {_quoted(label)}\n" if label is not None else '# label = "NAME"\n'
    for name in reader.names:
        body = _CHOICES if reader.types is None else _body(reader.types[name], is_label=name == label)
        text += f"\n[columns.{_key(name)}]\n{body}"
    return text


def _is_images(data: Any) -> bool:
    if isinstance(data, (str, Path)):
        path = Path(data)
        return (
            path.is_dir() or path.suffix.lower() == ".npz" or ("idx" in path.name and not path.name.endswith(SUFFIXES))
        )
    return isinstance(data, tuple)


def _draft_images(data: Any) -> str:
    from simulacra.data.images import open_images

    height, width, channels = open_images(data).shape
    return (
        _HEAD
        + f"""
[image]
# The size and the number of channels (1 grey, 3 colour) of every image, from the header of the data.
height = {height}
width = {width}
channels = {channels}
# The names of the classes, in the order of their numbers (or of the subfolders); remove it if there are no labels.
classes = ["{BLANK}"]
"""
    )


def _body(kind: Any, *, is_label: bool) -> str:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    missing = "# missing = true         # if values may be missing\n"
    if pa.types.is_boolean(kind):
        return 'type = "boolean"\n' + missing
    whole = pa.types.is_integer(kind)
    if is_label or not (whole or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_temporal(kind)):
        return (
            f'type = "categorical"     # texts may also be "datetime"\nvalues = ["{BLANK}"]\n'
            "# other = true           # for all values not listed\n" + missing
        )
    if whole:
        codes = (
            '# If the numbers are codes: type = "categorical", values = [1, 2, 3]; if only 0 and 1: type = "boolean"\n'
        )
        return codes + _NUMERIC + "integer = true\n# log = true             # for skewed amounts\n" + missing
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        example = "2000-01-01T00:00:00" if pa.types.is_timestamp(kind) else "2000-01-01"
        return f'type = "datetime"\nlower = "{BLANK}"      # such as {example}\nupper = "{BLANK}"\n' + missing
    return (
        _NUMERIC
        + "# integer = true         # if only whole numbers occur\n# log = true             # for skewed amounts\n"
        + missing
    )


def _key(name: str) -> str:
    return tomli_w.dumps({name: 0}).rsplit(" = ", 1)[0]


def _quoted(text: str) -> str:
    return tomli_w.dumps({"k": text}).removeprefix("k = ").rstrip("\n")
