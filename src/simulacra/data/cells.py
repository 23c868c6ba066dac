"""The one-hot view of a table: every feature column cut into cells, as the schema says."""

from __future__ import annotations

import itertools

import torch

from simulacra.errors import SchemaError
from simulacra.schema import Datetime, Numeric, Schema

EDGE = 2.0**-8
"""`place` keeps this share of a cell free at both ends, so that float32 rounding cannot move a value into the next."""


class Cells:
    """Between encoded inputs, the number of the cell each column is in, and the one-hot rows of these.

    Ordered columns have `bin_count` equal steps of their scale and then, if declared, a missing cell; unordered ones a
    cell per value. `index` and `one_hot` are defined for any input, and work for one record or many and under vmap.
    """

    sizes: tuple[int, ...]
    """Cells per feature column, the missing cell included."""
    offsets: tuple[int, ...]
    """Where each column begins in a one-hot row."""
    total: int
    """Length of a one-hot row."""
    inputs: int
    """Length of an encoded record."""

    def __init__(self, schema: Schema) -> None:
        if schema.image is not None:
            raise SchemaError("images have no cells; a method that needs them wants a table")
        columns = schema.features
        self.inputs = schema.inputs
        self.sizes = tuple(column.cells for column in columns)
        self.total = sum(self.sizes)
        self.offsets = tuple(itertools.accumulate(self.sizes, initial=0))[:-1]
        positions = tuple(itertools.accumulate((column.width for column in columns), initial=0))[:-1]
        flagged = [column.width == 2 for column in columns]
        steps = [column.bin_count if isinstance(column, (Numeric, Datetime)) else column.cells for column in columns]
        self._constants = {
            "position": torch.tensor(positions),
            # Columns without a flag look at their own position, and `flagged` ignores the answer.
            "flag": torch.tensor([at + has for at, has in zip(positions, flagged, strict=True)]),
            "flagged": torch.tensor(flagged),
            "ordered": torch.tensor([column.ordered for column in columns]),
            "steps": torch.tensor(steps),
            "offset": torch.tensor(self.offsets),
        }
        self._on_device: dict[torch.device, dict[str, torch.Tensor]] = {torch.device("cpu"): self._constants}

    def index(self, inputs: torch.Tensor) -> torch.Tensor:
        """The cell of each column: (..., inputs) to int64 (..., columns)."""
        constant = self._at(inputs.device)
        values = torch.nan_to_num(inputs).clamp(-1.0, 1.0)
        steps = constant["steps"]
        scaled = (values[..., constant["position"]] + 1.0) * 0.5 * steps
        cell = scaled.floor().long().clamp(min=0).minimum(steps - 1)
        missing = constant["flagged"] & (values[..., constant["flag"]] > 0.0)
        return torch.where(missing, steps, cell)

    def one_hot(self, inputs: torch.Tensor) -> torch.Tensor:
        """One-hot rows: (..., inputs) to (..., total) of the same type, with a single 1 per column."""
        return self.one_hot_of(self.index(inputs), dtype=inputs.dtype)

    def one_hot_of(self, indices: torch.Tensor, *, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """One-hot rows of cell numbers: (..., columns) to (..., total)."""
        places = indices + self._at(indices.device)["offset"]
        zeros = torch.zeros((*indices.shape[:-1], self.total), dtype=dtype, device=indices.device)
        return zeros.scatter(-1, places, 1.0)

    def place(self, indices: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
        """Encoded records with these cells: (n, columns) to float32 (n, inputs), such that `index` gives them back.

        The position inside a step of an ordered column is uniformly random; unordered ones sit in the centre.
        """
        constant = self._at(indices.device)
        steps, flagged = constant["steps"], constant["flagged"]
        uniform = torch.rand(indices.shape, generator=generator, device=indices.device, dtype=torch.float64)
        inside = torch.where(constant["ordered"], EDGE + (1.0 - 2.0 * EDGE) * uniform, 0.5)
        position = 2.0 * (indices + inside) / steps - 1.0
        missing = flagged & (indices >= steps)
        result = torch.zeros((indices.shape[0], self.inputs), dtype=torch.float32, device=indices.device)
        result[:, constant["position"]] = torch.where(missing, 0.0, position).float()
        flags = torch.where(missing, 1.0, -1.0)
        result[:, constant["flag"][flagged]] = flags[:, flagged]
        return result

    def _at(self, device: torch.device) -> dict[str, torch.Tensor]:
        if device not in self._on_device:
            self._on_device[device] = {name: tensor.to(device) for name, tensor in self._constants.items()}
        return self._on_device[device]
