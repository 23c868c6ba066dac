"""Which seeds an evaluation takes."""

from __future__ import annotations

from simulacra.errors import SettingError

MOST_SEED = 2**32 - 1
"""Of numpy and scikit-learn."""


def check_seeds(seed: int, seeds: int = 1) -> None:
    """Refuse seeds that the libraries would not take, before anything is trained or paid for."""
    if seeds < 1:
        raise SettingError(f"seeds must be at least 1, got {seeds}")
    if not 0 <= seed <= MOST_SEED - (seeds - 1):
        after = f" and the {seeds - 1} after it" if seeds > 1 else ""
        raise SettingError(f"seeds must be from 0 to 2^32 - 1, got {seed}{after}")
