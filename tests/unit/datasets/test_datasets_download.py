from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from simulacra.datasets.download import Remote, fetch
from simulacra.errors import DataError

CONTENT = bytes(range(256)) * 1000


class Handler(BaseHTTPRequestHandler):
    """Serves one good file, one that breaks off, and one without a length."""

    def do_GET(self) -> None:
        if self.path not in ("/good", "/short", "/plain"):
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/plain":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:1000] if self.path == "/short" else CONTENT)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def home() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def remote(*urls: str, checksum: str | None = None, max_bytes: int = 1 << 20) -> Remote:
    return Remote(
        name="file.bin", urls=urls, checksum=checksum or hashlib.sha256(CONTENT).hexdigest(), max_bytes=max_bytes
    )


def test_a_download_is_verified_kept_and_not_repeated(home: str, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    folder = tmp_path / "new" / "folder"
    path = fetch(remote(f"{home}/good"), folder, lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [file.name for file in folder.iterdir()] == ["file.bin"]
    assert fetch(remote("http://127.0.0.1:1/never-asked"), folder) == path


def test_the_next_address_is_tried_when_one_fails(home: str, tmp_path: Path) -> None:
    path = fetch(remote(f"{home}/absent", f"{home}/short", f"{home}/plain"), tmp_path)
    assert path.read_bytes() == CONTENT


def test_md5_is_accepted_where_that_is_what_was_published(home: str, tmp_path: Path) -> None:
    published = Remote(
        name="f", urls=(f"{home}/good",), checksum=hashlib.md5(CONTENT).hexdigest(), algorithm="md5", max_bytes=1 << 20
    )
    assert fetch(published, tmp_path).is_file()


@pytest.mark.parametrize(
    ("path", "checksum", "max_bytes", "message"),
    [
        ("/good", "0" * 64, 1 << 20, "wrong checksum"),
        ("/good", None, 1000, "larger than 1000 bytes"),
        ("/absent", None, 1 << 20, "HTTP status 404"),
        ("/short", None, 1 << 20, "cannot download file.bin"),
    ],
)
def test_a_bad_download_is_refused_and_leaves_nothing(
    home: str, tmp_path: Path, path: str, checksum: str | None, max_bytes: int, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        fetch(remote(home + path, checksum=checksum, max_bytes=max_bytes), tmp_path)
    assert "put it into" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_no_connection_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot download"):
        fetch(remote("http://127.0.0.1:1/x"), tmp_path)


def test_a_spoiled_file_in_the_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"spoiled")
    with pytest.raises(DataError, match="remove it"):
        fetch(remote(), tmp_path)


@pytest.mark.parametrize("checksum", ["", "0", "abcdef0"])
def test_a_checksum_that_many_files_would_have_is_refused(checksum: str) -> None:
    with pytest.raises(ValueError, match="too short for a checksum"):
        Remote(name="data.bin", urls=(), checksum=checksum)
