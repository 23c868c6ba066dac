"""Refined views: what another view says, projected, of fewer layers, of layers that are even, or about a public mean.

All of it is public and done image by image before features are scaled to length 1, so no bound depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from simulacra.errors import SettingError
from simulacra.features.unit_sums import of_length_one
from simulacra.features.views import View


class Within(View):
    """A view of what another one sees: the network is asked the same, and its answer is read otherwise."""

    def __init__(self, view: View) -> None:
        self.image, self.inner, self.work, self.sizes = view.image, view, view.work, view.sizes

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        return self.inner.shapes

    def look(self, points: torch.Tensor) -> list[torch.Tensor]:
        return self.inner.look(points)


class Projected(Within):
    """A view with each layer mapped to few numbers by a public matrix: noise then grows with the root of those.

    The matrices must not depend on private data. They change no bound: features are scaled to length 1 afterwards.
    """

    def __init__(self, view: View, matrices: Sequence[torch.Tensor]) -> None:
        if [matrix.shape[1] for matrix in matrices] != list(view.sizes):
            raise SettingError("the projection was made for another encoder, or for images of another size")
        super().__init__(view)
        self.sizes = tuple(matrix.shape[0] for matrix in matrices)
        self._following = Following([matrix.T.contiguous() for matrix in matrices])

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((1, 1, size) for size in self.sizes)

    def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
        found = self.inner.read(looked)
        return [layer @ matrix for layer, matrix in zip(found, self._following.to(found[0]), strict=True)]


class Deepest(Within):
    """The last layers of a view alone: fewer numbers to add noise to, which tell kinds of images apart best."""

    def __init__(self, view: View, layers: int) -> None:
        if not 1 <= layers <= len(view.sizes):
            raise SettingError(f"layers.last must be from 1 to {len(view.sizes)} for this encoder, got {layers}")
        super().__init__(view)
        self.sizes, self.nonnegative, self.rearranges = view.sizes[-layers:], view.nonnegative, view.rearranges

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        return self.inner.shapes[-len(self.sizes) :]

    def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
        return self.inner.read(looked)[-len(self.sizes) :]


class Even(Within):
    """A view with each layer scaled to length 1, so that long ones do not leave the others to the noise.

    Noise is as strong in every number, and deep layers have few: with as much of the length they have more signal in
    each.
    """

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.nonnegative = view.nonnegative

    def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
        return [of_length_one([layer])[0] for layer in self.inner.read(looked)]


class Centred(Within):
    """A view about a public mean: what is said of any image is left out, and what is left has the length to itself.

    Features of length 1 are mostly what all images share, so a class's sum differs little from another's beside the
    noise. Scaled to length 1 after a mean is taken off, they differ by more. The mean must not depend on private data;
    it is of features that were scaled to length 1 as they are here.
    """

    def __init__(self, view: View, mean: Sequence[torch.Tensor]) -> None:
        if [len(part) for part in mean] != list(view.sizes):
            raise SettingError("the mean is of other features")
        super().__init__(view)
        self.mean, self._following = list(mean), Following(mean)

    def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
        found = of_length_one(self.inner.read(looked))
        return [layer - part for layer, part in zip(found, self._following.to(found[0]), strict=True)]


class Following:
    """Public tensors that go where features are, and take their precision; kept as they came for when these move."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.tensors = self._ready = list(tensors)

    def to(self, like: torch.Tensor) -> list[torch.Tensor]:
        """All of them, moved once for as long as features stay where they are."""
        if self._ready[0].device != like.device or self._ready[0].dtype != like.dtype:
            self._ready = [tensor.to(like) for tensor in self.tensors]
        return self._ready
