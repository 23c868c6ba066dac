"""What differs is shown where a helper compares, too, and not only where a test does."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("refusals")
