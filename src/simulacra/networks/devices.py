"""Where to compute: checked at once rather than after an hour."""

from __future__ import annotations

from simulacra.errors import SettingError


def pick_device(name: str) -> str:
    """`auto` is a GPU if there is one; anything else must be there."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).item()  # item, because the "meta" device makes tensors and cannot compute
    except (RuntimeError, AssertionError):
        raise SettingError(f'device "{name}" is not available here; use cpu or auto') from None
    return name
