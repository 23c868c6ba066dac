"""How precisely a GPU multiplies, and what that can do to a record's share of a sum."""

from __future__ import annotations

from enum import StrEnum


class Precision(StrEnum):
    """Of the products behind signals and sums; lengths are always measured in full single precision."""

    SINGLE = "single"
    """Every product in float32 (or float64, if that is what the loss computes in)."""
    MIXED = "mixed"
    """On its way through the network a record's numbers may be rounded to 10 bits by a GPU (TF32), by itself and the
    same in any company. What came of it is measured and added up in float32."""
    TENSOR_FLOAT = "tensor-float"
    """Factors are rounded in the sums as well. What that can add is part of each length: see `clipping`."""

    @property
    def rounds_passes(self) -> bool:
        """Whether the network computes in TF32."""
        return self is not Precision.SINGLE

    @property
    def rounds_sums(self) -> bool:
        """Whether records are added up in TF32."""
        return self is Precision.TENSOR_FLOAT

    @property
    def rounding(self) -> float:
        """Products a * s inside a sum differ from the true ones by at most this share of |a| |s|.

        TF32 keeps 11 significant bits of both factors. Whether matrix units round to them or cut the rest off is not
        promised, so it is taken for cutting: (1 + 2^-10)^2 - 1 < 2^-8.9. Products of float32 numbers lose nothing
        before they are added.
        """
        return 2.0**-8.9 if self.rounds_sums else 0.0
