"""kill -9 at random moments of a release: a crash is not a refund, and not a catastrophe either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killed_releases.py")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked, so that kills land inside the work")
@pytest.mark.parametrize("kills", [12, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_releases_leave_a_ledger_that_opens_and_covers_them(tmp_path: Path, kills: int) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), str(kills)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    print(result)
    assert result["killed"] >= kills // 3, "kills must land before the work is done"
    assert len(result["stages"]) >= 4, "the kills must land at different stages"
    assert result["paid"] >= 2 * (2 * kills + 2), "each of the runs paid for two releases at least"
