"""Traces in object stores, read with the real clients from servers that speak the real protocols."""

from __future__ import annotations

import gzip
import importlib
import json
import random
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest

from kinetoscope import operators, read
from kinetoscope.cli import main
from kinetoscope.errors import MissingExtraError, NotFoundError
from kinetoscope.outputs.opening import stored
from kinetoscope.readers.files import remote
from kinetoscope.readers.files.cache import cache_at
from tests import drawn
from tests.catalog.samples import BUNDLED
from tests.readers import servers
from tests.readers.servers import Proxy, Store, Web

pytestmark = pytest.mark.slow

SMALL = (BUNDLED / "mlp.pt.trace.json.gz").read_bytes()
RANDOM = random.Random(4)
EVENTS = [drawn.op(RANDOM.randbytes(30).hex(), 3 * k, 1) for k in range(20_000)]
LARGE = gzip.compress(json.dumps({"distributedInfo": {"rank": 2, "world_size": 3}, "traceEvents": EVENTS}).encode(), 1)
"""Larger than what a look into it takes: 0.9 MB."""

BYTES = RANDOM.randbytes(9_000_000)


def running(name: str, folder: Path) -> AbstractContextManager[Store]:
    match name:
        case "moto":
            return servers.moto()
        case "s3rver":
            return servers.s3rver(folder)
        case "gcs":
            return servers.gcs()
        case _:
            return servers.azurite(folder)


@pytest.fixture(scope="module", params=["moto", "s3rver", "gcs", "azurite"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store that holds a run of three ranks and other files."""
    with pytest.MonkeyPatch.context() as patch, running(request.param, tmp_path_factory.mktemp("store")) as store:
        servers.require(store.package)
        system = connected(store, patch)
        if not system.exists("traces"):
            system.mkdir("traces")
        for rank in (0, 1):
            system.pipe(f"traces/run/rank{rank}.json.gz", SMALL)
        system.pipe("traces/run/big/trace.json.gz", LARGE)
        system.pipe("traces/run/rank0.json.gz.meta.json", b"{}")
        system.pipe("traces/run10/rank5.json.gz", SMALL)
        system.pipe("traces/notes/readme.txt", b"traces")
        yield store


@pytest.fixture
def store(server: Store, monkeypatch: pytest.MonkeyPatch, copies: Path) -> Store:
    """The same, and this process is told how to reach it."""
    connected(server, monkeypatch)
    return server


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of the cache, which is empty."""
    monkeypatch.setenv("KINETOSCOPE_CACHE", str(tmp_path / "copies"))
    return tmp_path / "copies"


def connected(store: Store, patch: pytest.MonkeyPatch) -> Any:
    """The file system, of which nobody remembers how it was reached before."""
    patch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # asks another service, which no emulator has
    for name, text in store.environment.items():
        patch.setenv(name, text)
    patch.setitem(fsspec.config.conf, store.scheme, store.options)
    fsspec.get_filesystem_class(store.scheme).clear_instance_cache()
    return fsspec.filesystem(store.scheme, use_listings_cache=False)


def fetched(url: str) -> bytes:
    file, size = remote.opened(url, cache_at())
    with file:
        data = file.read()
    assert len(data) == size
    return data


def names(path: str) -> list[tuple[str, int, int | None]]:
    return [(source.name, source.rank, source.size) for source in read(path).sources]


def test_a_run_in_a_store_is_listed_read_and_analysed(store: Store, copies: Path, tmp_path: Path) -> None:
    run = f"{store.scheme}://traces/run"
    small, large = len(SMALL), len(LARGE)
    assert names(run) == [("rank0.json.gz", 0, small), ("rank1.json.gz", 1, small), ("trace.json.gz", 2, large)]
    assert names(f"{run}/") == names(run)
    assert names(f"{run}/rank*.gz") == [("rank0.json.gz", 0, small), ("rank1.json.gz", 1, small)]
    assert names(f"{run}/rank1.json.gz") == [("rank1.json.gz", 1, small)]
    for rank, content in enumerate((SMALL, SMALL, LARGE)):
        (tmp_path / f"rank{rank}.json.gz").write_bytes(content)
    told: list[int] = []
    job = read(run, progress=told.append)
    assert operators(job).frame.equals(operators(read(tmp_path)).frame)
    assert sum(told) == stored(job.sources) == 2 * small + large
    assert sorted(file.stat().st_size for file in copies.iterdir() if file.suffix == "") == [0, small, small, large]


def test_what_is_not_there_is_said_in_a_line(store: Store) -> None:
    for path in ("run/none.json", "run/none*.json", "notes"):
        with pytest.raises(NotFoundError, match=r"no such file|no traces there") as caught:
            read(f"{store.scheme}://traces/{path}")
        assert "\n" not in str(caught.value)
    with pytest.raises(NotFoundError, match="no such file"):
        read(f"{store.scheme}://nobodys-bucket/run")


def test_wrong_credentials_are_said_in_a_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    if not store.wrong:
        pytest.skip("this store lets everybody in")
    connected(replace(store, environment=store.wrong), monkeypatch)
    for path in ("run", "run/rank0.json.gz"):
        with pytest.raises(NotFoundError, match="access denied") as caught:
            read(f"{store.scheme}://traces/{path}")
        assert "\n" not in str(caught.value)


def test_a_connection_that_is_cut_is_taken_up_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "RANGE_BYTES", 1 << 18)
    monkeypatch.setattr(remote, "RANGES_AHEAD", 1)
    cuts = 6 if store.package == "s3fs" else 1  # s3fs gives up after five
    proxy = Proxy(store.port, after=200_000, cuts=cuts)
    with proxy.running() as port:
        connected(store.at(port), monkeypatch)
        trace = read(f"{store.scheme}://traces/run/big/trace.json.gz").trace()
    assert len(trace) == len(EVENTS)
    assert proxy.happened == cuts


def test_the_command_line_says_where_copies_are_kept_and_how_many(store: Store, copies: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    trace = f"{store.scheme}://traces/run/big/trace.json.gz"
    for size, count in (("0", 0), ("1kB", 0), ("10MB", 1)):
        assert main(["doctor", trace, "--cache", str(here), "--cache-size", size]) == 0
        assert len([file for file in here.glob("*") if not file.name.startswith(".")]) == count
    assert not copies.exists()


# --- HTTP


def test_a_stream_that_is_cut_goes_on_where_it_was(copies: Path) -> None:
    web = Web({"/bytes": BYTES}, cut=6_000_000)
    with web.running() as root:
        assert fetched(f"{root}/bytes") == BYTES
        assert fetched(f"{root}/bytes") == BYTES
    assert len(web.asked) == 2  # and then it was here
    assert re.fullmatch(r"bytes=[1-9]\d*-", web.asked[1])
    assert [file.read_bytes() == BYTES for file in copies.iterdir() if file.stat().st_size] == [True]


def test_a_server_that_knows_no_ranges_begins_anew(copies: Path) -> None:
    web = Web({"/bytes": BYTES}, ranges=False, cut=6_000_000)
    with web.running() as root:
        assert fetched(f"{root}/bytes") == BYTES
    assert len(web.asked) == 2


def test_a_file_that_changes_while_it_is_read_is_refused(copies: Path) -> None:
    web = Web({"/bytes": BYTES}, cut=6_000_000, tags=['"two"'])
    with web.running() as root, pytest.raises(NotFoundError, match="it changed while it was read"):
        fetched(f"{root}/bytes")
    assert [file for file in copies.iterdir() if file.stat().st_size] == []


def test_a_trace_on_the_web(copies: Path) -> None:
    with Web({"/t.json.gz": LARGE}).running() as root:
        job = read(f"{root}/t.json.gz?signature=1")
        assert (job.ranks, len(job.trace())) == ((2,), len(EVENTS))


def test_a_folder_on_the_web_ends_with_a_slash(copies: Path) -> None:
    with Web({"/run/rank1.json.gz": SMALL, "/run/rank0.json.gz": SMALL, "/run/x.txt": b""}).running() as root:
        assert [name for name, _, _ in names(f"{root}/run/")] == ["rank0.json.gz", "rank1.json.gz"]


@pytest.mark.parametrize(
    ("status", "message"), [(403, "access denied"), (404, "no such file"), (500, "cannot be read")]
)
def test_what_a_server_refuses_is_said_in_a_line(status: int, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "WAITS_S", (0.0, 0.0))
    with Web({"/t.json": SMALL}, status=status).running() as root:
        with pytest.raises(NotFoundError, match=message) as caught:
            read(f"{root}/t.json")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "path"), [("http", "t.json"), ("s3", "t.json"), ("gs", "t.json"), ("abfs", "t.json"), ("abfs", "r/*.gz")]
)
def test_no_network_is_said_in_a_line_and_within_20_seconds(
    scheme: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    url = f"{scheme}://traces/{path}"
    match scheme:
        case "s3":
            store = servers.s3(port, "k", "s", refuses=False)
            monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        case "gs":
            store = servers.google(port)
        case "abfs":
            store = servers.azure(port)
        case _:
            monkeypatch.setattr(remote, "WAITS_S", (0.0, 0.0))
            url = f"http://127.0.0.1:{port}/{path}"
    if scheme != "http":
        servers.require(store.package)
        connected(store, monkeypatch)
    begun = time.monotonic()
    with pytest.raises(NotFoundError, match="no connection") as caught:
        read(url)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - begun < 20


def test_nobody_without_an_account_at_google_is_asked_for_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    servers.require("gcsfs")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{nobody.getsockname()[1]}")
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # else the machine's own account is asked for, which takes seconds
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    key = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "t"}
    for name, content, method in (("none", "", "anon"), ("key", json.dumps(key), "google_default")):
        (tmp_path / name).write_text(content)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / name))
        fsspec.get_filesystem_class("gs").clear_instance_cache()
        assert remote.locate("gs://b/t.json").system.credentials.method == method


# --- without a network


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [("s3://b/t.json", "s3fs", "s3"), ("gs://b/t.json", "gcsfs", "gcs"), ("abfs://b/t.json", "adlfs", "azure")],
)
def test_a_missing_extra_says_what_to_install(
    url: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    registry = importlib.import_module("fsspec.registry")  # fsspec.registry itself is something else
    monkeypatch.delitem(registry._registry, url.partition(":")[0], raising=False)
    with pytest.raises(MissingExtraError, match=rf"pip install '{module}>="):
        read(url)
