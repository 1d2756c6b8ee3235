"""Takes the pictures of the page that README and docs show, from real traces, in a real browser.

    python docs/pictures.py TRACES [NAME…]    the folder that holds resnet50_v100, …; pictures, else all

Beside it the folder `samples/serving` is expected. The jobs of the pictures `overview` and `serving` are simulated.

Needs Playwright for Python and a Chromium (`$CHROMIUM`, else what is on the path).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from docs.live import slow_training
from tests.faults.engine import Engine, serving
from tests.web.browser import chromium

IMAGES = Path(__file__).with_name("images")

SHOTS = {
    "overview": ("training", "overview", "", "light"),
    "findings": ("resnet50_v100/num_workers_4", "findings", "", "light"),
    "timeline": ("resnet50_v100/num_workers_0", "timeline", "?p.in=180000000-370000000", "light"),
    "timeline-dark": ("owlv2_h100", "timeline", "", "dark"),
    "memory": ("torch_2_13_cpu/leak", "memory", "", "light"),
    "efficiency": ("owlv2_h100", "efficiency", "", "light"),
    "critical-path": ("resnet50_v100/num_workers_0", "critical_path", "", "light"),
    "serving": ("engine", "serving", "", "light"),
    "replay": ("vllm_decode_full", "timeline", "?p.fold=l0/1w&p.in=8420000-8560000", "light"),
    "distributed": ("dlrm_ddp_v100_8rank", "distributed", "", "light"),
    "compare": ("resnet50_v100/num_workers_4", "compare", "?base={resnet50_v100/num_workers_0}", "light"),
}
"""Of each picture: run, view, the rest of the address, light or dark."""

ENGINE = Engine(
    scopes=True, decode=(*range(4, 64, 3), *range(64, 4, -5)), prompt=6000, every=16, sampler="sorted", ahead=False
)
"""The engine of the picture `serving`: the number of its requests rises and falls, and prompts come in between."""

_SIZE = {"width": 1280, "height": 800}
_SETTLED = "() => !!document.querySelector('h1')?.textContent && !document.querySelector('main [aria-busy=true]')"


def main() -> None:
    from playwright.sync_api import sync_playwright

    folder, *chosen = sys.argv[1:]
    with tempfile.TemporaryDirectory() as drawn, sync_playwright() as playwright:
        (engine := Path(drawn) / "engine").mkdir()
        serving(ENGINE, steps=120)(engine)
        (training := Path(drawn) / "training").mkdir()
        slow_training(training)
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for root in (folder, str(Path(folder).parent / "samples" / "serving"), drawn):
            _pictures(browser, root, chosen)
        browser.close()


def _pictures(browser: Any, root: str, chosen: Sequence[str]) -> None:
    """The pictures of the runs of one folder: a server of its own, so that runs are called as their folders are."""
    command = [sys.executable, "-m", "kinetoscope", "view", root, "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[1]
        runs = {run["name"]: run["id"] for run in _json(f"{address}api/runs")["runs"]}
        IMAGES.mkdir(exist_ok=True)
        for name, (run, view, query, scheme) in SHOTS.items():
            if run not in runs or (chosen and name not in chosen):
                continue
            for other, identity in runs.items():
                query = query.replace(f"{{{other}}}", identity)
            page = _page(browser, scheme)
            page.goto(f"{address}#/{runs[run]}/{view}{query}")
            page.wait_for_function(_SETTLED, timeout=120_000)
            page.wait_for_timeout(1500)
            page.screenshot(path=IMAGES / f"{name}.png")
            page.close()
            print(IMAGES / f"{name}.png")
    finally:
        server.terminate()


def _page(browser: Any, scheme: str) -> Any:
    return browser.new_page(viewport=_SIZE, color_scheme=scheme)


def _json(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
