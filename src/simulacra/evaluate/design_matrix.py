"""Tables as numbers for classifiers, by the public schema alone: nothing is fitted on synthetic or real rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from simulacra.data.cell_names import cell_names
from simulacra.data.cells import Cells
from simulacra.data.frames import encode_frame
from simulacra.errors import SchemaError
from simulacra.schema import Column, Schema

if TYPE_CHECKING:
    import pandas as pd


MOST_ONE_HOT = 512
"""A column with more cells than this shares them out, cell by number: one-hot rows of a huge list fill the memory."""


def column_names(schema: Schema) -> list[str]:
    """What each column of the design matrix stands for."""
    names: list[str] = []
    for column in schema.features:
        if column.ordered:
            names.append(column.name)
            names += [f"{column.name} is missing"] if column.missing else []
        else:
            names += [f"{column.name} = {cell}" for cell in cell_names(column)[: _width(column)]]
    return names


def shared_out(schema: Schema) -> list[str]:
    """Names of the columns whose values share places of the design matrix."""
    return [column.name for column in schema.features if not column.ordered and column.cells > MOST_ONE_HOT]


def design_matrix(frame: pd.DataFrame, schema: Schema) -> NDArray[np.float32]:
    """All columns but the label: ordered ones in [0, 1] by their bounds and a missing flag, the others one-hot."""
    return design_of(encode_frame(frame, schema).inputs, schema)


def design_of(inputs: torch.Tensor, schema: Schema) -> NDArray[np.float32]:
    """The same from encoded records; each row is made from its own record alone. Images are their pixels in [0, 1]."""
    numbers = inputs.numpy()
    if schema.image is not None:
        return np.asarray((numbers + 1.0) / 2.0, dtype=np.float32)
    cells = Cells(schema).index(inputs).numpy()
    matrix = np.zeros((len(numbers), sum(_width(column) for column in schema.features)), dtype=np.float32)
    rows = np.arange(len(numbers))
    start = at = 0
    for place, column in enumerate(schema.features):
        if column.ordered:
            matrix[:, start] = (numbers[:, at] + 1.0) / 2.0
            if column.missing:
                matrix[:, start + 1] = numbers[:, at + 1] > 0.0
        else:
            matrix[rows, start + cells[:, place] % MOST_ONE_HOT] = 1.0
        start += _width(column)
        at += column.width
    return matrix


def class_index(frame: pd.DataFrame, schema: Schema) -> NDArray[np.int64]:
    """The class of each row, in the order of `schema.class_names`."""
    if schema.label is None:
        raise SchemaError("the schema names no label; add label = COLUMN to train classifiers")
    return encode_frame(frame, schema).codes(schema.column(schema.label))


def _width(column: Column) -> int:
    return 1 + column.missing if column.ordered else min(column.cells, MOST_ONE_HOT)
