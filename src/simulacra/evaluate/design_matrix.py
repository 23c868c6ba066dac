"""Tables as numbers for classifiers, by the public schema alone: nothing is fitted on synthetic or real rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulacra.errors import SchemaError
from simulacra.evaluate.cells import MIDDLE, codes, positions
from simulacra.schema import Column, Schema

if TYPE_CHECKING:
    import pandas as pd


def column_names(schema: Schema) -> list[str]:
    """What each column of the design matrix stands for."""
    from simulacra.evaluate.cells import cell_names

    names: list[str] = []
    for column in schema.features:
        if column.ordered:
            names.append(column.name)
            names += [f"{column.name} is missing"] if column.missing else []
        else:
            names += [f"{column.name} = {cell}" for cell in cell_names(column)]
    return names


def design_matrix(frame: pd.DataFrame, schema: Schema) -> NDArray[np.float32]:
    """All columns but the label: ordered ones in [0, 1] by their bounds and a missing flag, the others one-hot."""
    matrix = np.zeros((len(frame), sum(_width(column) for column in schema.features)), dtype=np.float32)
    rows = np.arange(len(frame))
    start = 0
    for column in schema.features:
        series = frame[column.name]
        if column.ordered:
            position = positions(series, column)
            missing = np.isnan(position)
            matrix[:, start] = np.where(missing, MIDDLE if column.missing else 0.0, position)
            if column.missing:
                matrix[:, start + 1] = missing
        else:
            matrix[rows, start + codes(series, column)] = 1.0
        start += _width(column)
    return matrix


def class_index(frame: pd.DataFrame, schema: Schema) -> NDArray[np.int64]:
    """The class of each row, in the order of `schema.class_names`."""
    if schema.label is None:
        raise SchemaError("the schema names no label; add label = COLUMN to train classifiers")
    return codes(frame[schema.label], schema.column(schema.label))


def _width(column: Column) -> int:
    return 1 + column.missing if column.ordered else column.cells
