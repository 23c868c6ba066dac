"""Files, frames and arrays as streams of encoded records; nothing is learned from the data.

The heavy libraries are imported when they are needed, so that the command line starts quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulacra.privacy.records import Source
    from simulacra.schema import Schema

__all__ = ["open_source"]


def open_source(data: Any, schema: Schema) -> Source:
    """The records of a table (path, DataFrame, Arrow table) or of images (path, folder, arrays), as the schema says."""
    if schema.image is not None:
        from simulacra.data.images import ImageSource

        return ImageSource(data, schema)
    from simulacra.data.tables import TableSource

    return TableSource(data, schema)
