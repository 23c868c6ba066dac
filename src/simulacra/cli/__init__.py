"""The command line: one command, one API call. `main` turns every expected error into one line and exit code 2."""

from __future__ import annotations

import errno
import json
import sys


def main() -> None:
    """Run the command line."""
    from simulacra.networks.allocation import set_before_torch

    set_before_torch()
    import click

    from simulacra.cli.app import app
    from simulacra.errors import SimulacraError

    as_json = "--json" in sys.argv
    try:
        code = app(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except (click.Abort, KeyboardInterrupt):
        print("simulacra: stopped", file=sys.stderr)
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), as_json)
    except SimulacraError as error:
        _fail(str(error), as_json)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            _fail(f"cannot write: {error.strerror}; free some space or choose another place", as_json)
        if error.strerror is None or error.filename is None:
            raise
        _fail(f'cannot use "{error.filename}": {error.strerror}; give another path', as_json)


def _fail(message: str, as_json: bool) -> None:
    line = " ".join(message.split())
    print(f"simulacra: {line}", file=sys.stderr)
    if as_json:
        print(json.dumps({"ok": False, "error": line}))
    sys.exit(2)
