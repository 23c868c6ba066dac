"""Invented pictures: discs that lie on one another like fallen leaves, with edges and areas of all sizes as in photos.

A network says much the same of them as of photos, on average, and they are of no data at all (Lee, Mumford and Huang,
Occlusion Models for Natural Images, 2001).
"""

from __future__ import annotations

import numpy as np
import torch

from simulacra.schema import ImageShape

DISCS = 60
LEAST, MOST = 0.02, 0.6
"""Radii, as shares of the longer side."""
FALL = 1.6
"""Discs of at least a radius are rarer by this power of it."""


def dead_leaves(count: int, image: ImageShape, *, seed: int) -> torch.Tensor:
    """(count, pixels) points: intensities in [0, 1]. Of uniform numbers alone, which are the same everywhere."""
    random = np.random.Generator(np.random.PCG64(seed))
    side = max(image.height, image.width)
    down, across = np.mgrid[: image.height, : image.width] + 0.5
    found = np.empty((count, image.channels, image.height, image.width), dtype=np.float32)
    for picture in found:
        tint = random.random((image.channels, 1))
        picture[:] = tint[:, :, np.newaxis]
        for _ in range(DISCS):
            radius = side * min(MOST, LEAST * (1 - random.random()) ** (-1 / FALL))
            middle = random.random(2) * (image.height, image.width)
            inside = (down - middle[0]) ** 2 + (across - middle[1]) ** 2 < radius**2
            # Leaves of a picture have its tint, and differ in light more than in colour.
            light, colour = 1.2 * random.random() - 0.6, 0.6 * random.random((image.channels, 1)) - 0.3
            picture[:, inside] = np.clip(tint + light + colour, 0, 1)
    return torch.from_numpy(found.reshape(count, -1))
