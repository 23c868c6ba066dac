"""Reference: real rows that were set aside for evaluation. It is never sealed and never feeds a method."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import torch

from simulacra.data import open_source
from simulacra.data.encode import arrow_schema, decode
from simulacra.errors import DataError
from simulacra.schema import Schema

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Real records in the same form and types as samples: encoded, or as a table of the schema's types.

    Values the schema does not know are treated by its stated policy, so that scores compare like with like.
    """

    schema: Schema
    inputs: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def load(cls, data: Any, schema: Schema) -> Reference:
        """Read all rows of anything that `open_source` takes; none at all is a DataError."""
        parts = [part for part in open_source(data, schema).batches() if len(part.labels)]
        if not parts:
            where = f'"{data}"' if isinstance(data, (str, Path)) else "the data"
            raise DataError(f"{where} holds no records; at least one is needed")
        inputs, labels = torch.cat([part.inputs for part in parts]), torch.cat([part.labels for part in parts])
        return cls(schema=schema, inputs=inputs, labels=labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return "Reference(real rows, for evaluation only)"

    def table(self) -> Any:
        """The rows as an Arrow table, typed as `decode` types samples."""
        return decode(self.inputs, self.labels, self.schema)

    def frame(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        return to_frame(self.table())


def read_table(data: Any, schema: Schema) -> Any:
    """A whole public or reference table in memory, typed by the schema."""
    from simulacra.data.tables import TableSource

    parts = [decode(part.inputs, part.labels, schema) for part in TableSource(data, schema).batches()]
    return pa.concat_tables(parts) if parts else arrow_schema(schema).empty_table()


def to_frame(table: Any) -> pd.DataFrame:
    """Arrow to pandas, the same way for samples and for reference rows (days become datetime64)."""
    frame: pd.DataFrame = table.to_pandas(date_as_object=False)
    return frame
