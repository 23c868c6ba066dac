"""A fixture for the tests of DP-MEPF: a public network to look through."""

from __future__ import annotations

from pathlib import Path

import pytest
from mepf_runs import encoder_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder but for the weights of a small public encoder."""
    encoder_file(tmp_path)
    return tmp_path
