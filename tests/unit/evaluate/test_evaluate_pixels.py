"""What numbers in an image mean is said by the caller, and checked."""

from __future__ import annotations

import numpy as np
import pytest

from simulacra.errors import DataError, SettingError
from simulacra.evaluate.pixels import as_bytes

BYTES = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_every_range_comes_back_to_the_same_bytes(kind: type) -> None:
    unit = (BYTES / 255).astype(kind)
    signed = (BYTES / 127.5 - 1).astype(kind)
    expected = BYTES[..., None]
    assert np.array_equal(as_bytes(BYTES, "bytes", what="x"), expected)
    if kind is not np.float16:  # eleven bits do not tell all levels near 1 apart
        assert np.array_equal(as_bytes(unit, "unit", what="x"), expected)
        assert np.array_equal(as_bytes(signed, "signed", what="x"), expected)
    assert as_bytes(unit[..., None], "unit", what="x").shape == (1, 16, 16, 1)


def test_rounding_is_to_the_nearest_level() -> None:
    values = np.array([0.0, 0.4 / 255, 0.6 / 255, 1.0]).reshape(1, 2, 2)
    assert as_bytes(values, "unit", what="x").ravel().tolist() == [0, 0, 1, 255]


@pytest.mark.parametrize(
    ("images", "pixels", "words"),
    [
        (np.full((2, 3, 3), -0.5), "unit", "from 0 to 1, but some are outside"),
        (np.full((2, 3, 3), 255.0), "signed", "from -1 to 1, but some are outside"),
        (np.full((2, 3, 3), np.nan), "unit", "not finite"),
        (np.full((2, 3, 3), np.inf), "signed", "not finite"),
        (np.full((2, 3, 3), 0.5), "bytes", 'pixels "bytes" do not come as float64'),
        (BYTES, "unit", 'pixels "unit" do not come as uint8'),
        (BYTES.astype(np.int64), "bytes", "do not come as int64"),
        (np.array([["a"]], dtype=object).reshape(1, 1, 1), "unit", "do not come as object"),
        (np.zeros((2, 9)), "unit", "must be .n, height, width"),
        (np.zeros((2, 3, 3, 4)), "unit", "1 or 3"),
        (np.zeros((0, 3, 3)), "unit", "there are none"),
    ],
)
def test_bad_images_are_one_clear_line(images: object, pixels: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        as_bytes(np.asarray(images), pixels, what="synthetic images")


def test_an_unknown_range_is_a_setting_error() -> None:
    with pytest.raises(SettingError, match='did you mean "bytes"'):
        as_bytes(BYTES, "byte", what="x")
