"""Takes the pictures of the page that README and docs show, from real traces, in a real browser.

    python docs/pictures.py TRACES      the folder that holds resnet50_v100, dlrm_ddp_v100_8rank, …

Needs Playwright for Python and a Chromium (`$CHROMIUM`, else what is on the path).
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from tests.web.browser import chromium

IMAGES = Path(__file__).with_name("images")

SHOTS = {
    "overview": ("resnet50_v100/num_workers_0", "overview", "", "light"),
    "findings": ("resnet50_v100/num_workers_4", "findings", "", "light"),
    "timeline": ("resnet50_v100/num_workers_0", "timeline", "?p.in=180000000-370000000", "light"),
    "timeline-dark": ("owlv2_h100", "timeline", "", "dark"),
    "memory": ("torch_2_13_cpu/leak", "memory", "", "light"),
    "efficiency": ("owlv2_h100", "efficiency", "", "light"),
    "critical-path": ("resnet50_v100/num_workers_0", "critical_path", "", "light"),
    "distributed": ("dlrm_ddp_v100_8rank", "distributed", "", "light"),
    "compare": ("resnet50_v100/num_workers_4", "compare", "?base={resnet50_v100/num_workers_0}", "light"),
}
"""Of each picture: run, view, the rest of the address, light or dark."""

_SIZE = {"width": 1280, "height": 800}
_SETTLED = "() => !!document.querySelector('h1')?.textContent && !document.querySelector('main [aria-busy=true]')"


def main() -> None:
    from playwright.sync_api import sync_playwright

    folder = sys.argv[1]
    program = chromium()
    command = [sys.executable, "-m", "kinetoscope", "view", folder, "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[1]
        runs = {run["name"]: run["id"] for run in _json(f"{address}api/runs")["runs"]}
        IMAGES.mkdir(exist_ok=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for name, (run, view, query, scheme) in SHOTS.items():
                for other, identity in runs.items():
                    query = query.replace(f"{{{other}}}", identity)
                page = _page(browser, scheme)
                page.goto(f"{address}#/{runs[run]}/{view}{query}")
                page.wait_for_function(_SETTLED, timeout=120_000)
                page.wait_for_timeout(1500)
                page.screenshot(path=IMAGES / f"{name}.png")
                page.close()
                print(IMAGES / f"{name}.png")
            browser.close()
    finally:
        server.terminate()


def _page(browser: Any, scheme: str) -> Any:
    return browser.new_page(viewport=_SIZE, color_scheme=scheme)


def _json(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
