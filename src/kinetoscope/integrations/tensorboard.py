"""The tab of TensorBoard: the same page and the same server, for the runs below its `--logdir`.

TensorBoard finds `Plugin` by the entry point `tensorboard_plugins` and imports this module when it starts, so nothing
is imported here that is not needed to say whether there are traces. It serves by WSGI; the server's ASGI is adapted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tensorboard.plugins import base_plugin

Start = Callable[..., Any]
Environ = dict[str, Any]
Wsgi = Callable[[Environ, Start], Iterable[bytes]]

_APP: Final = "/app"
_SCAN_SECONDS: Final = 10.0
"""Seconds after which a folder without traces is looked through again."""

_ENTRY: Final = b"""\
// The state of the page is the hash of its frame. TensorBoard's own address keeps it, for a reload and for a link.
const NAME = 'kinetoscope';
const outer = () => new URL(window.parent.location.href);
export async function render() {
  const page = document.createElement('iframe');
  page.title = 'Kinetoscope';
  let kept = '';
  try {
    kept = outer().searchParams.get(NAME) ?? '';
  } catch {
    // TensorBoard stands in a page of another site: its address is not ours to read.
  }
  page.src = new URL('app/index.html', import.meta.url).href + (kept.startsWith('/') ? '#' + kept : '');
  page.style.cssText = 'position:fixed;inset:0;width:100%;height:100%;border:0';
  page.onload = () => {
    const inner = page.contentWindow;
    const keep = () => {
      try {
        const address = outer();
        address.searchParams.set(NAME, inner.location.hash.slice(1));
        window.parent.history.replaceState(window.parent.history.state, '', address);
      } catch {
        // As above.
      }
    };
    for (const change of ['hashchange', 'popstate']) inner.addEventListener(change, keep);
  };
  document.body.replaceChildren(page);
}
"""
"""What TensorBoard runs in the tab: it opens the page in a frame of its own, and keeps the state in its address."""


class Plugin(base_plugin.TBPlugin):  # type: ignore[misc,unused-ignore]
    """Kinetoscope's tab."""

    plugin_name = "kinetoscope"

    def __init__(self, context: base_plugin.TBContext) -> None:
        """Take the folder from TensorBoard's options."""
        flags = context.flags
        self._paths = _folders(context.logdir or "", getattr(flags, "logdir_spec", "") or "")
        self._lock = threading.Lock()
        self._adapted: Wsgi | None = None
        self._workspace: Any = None
        self._looked = -1e9
        self._has_runs = False

    def get_plugin_apps(self) -> Mapping[str, Wsgi]:
        """The answers below `/data/plugin/kinetoscope`."""
        return {"/index.js": _entry, f"{_APP}/*": self._page}

    def is_active(self) -> bool:
        """Are there traces below the folder? TensorBoard asks often: what was found stays found."""
        with self._lock:
            if not self._has_runs and time.monotonic() - self._looked > _SCAN_SECONDS:
                self._has_runs = bool(self._runs().runs().runs)
                self._looked = time.monotonic()
            return self._has_runs

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """The tab's name, and the module that draws it."""
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="Kinetoscope")

    def _page(self, environ: Environ, start: Start) -> Iterable[bytes]:
        with self._lock:
            if self._adapted is None:
                self._adapted = _adapted(self._runs())
        before, _, rest = environ["PATH_INFO"].partition(f"/{self.plugin_name}{_APP}/")
        prefix = f"{environ.get('SCRIPT_NAME', '')}{before}/{self.plugin_name}{_APP}"
        return self._adapted({**environ, "SCRIPT_NAME": prefix, "PATH_INFO": f"/{rest}"}, start)

    def _runs(self) -> Any:
        from kinetoscope.server.runs.workspace import Workspace

        if self._workspace is None:
            self._workspace = Workspace(self._paths)
            self._workspace.watch()  # so that the page can say that code is being compiled, the first time
        return self._workspace


def _folders(logdir: str, spec: str) -> tuple[str, ...]:
    """The folders of `--logdir`, or of `--logdir_spec`, which is `name:path,name:path`."""
    if logdir:
        return (logdir,)
    named = [part.partition(":") for part in spec.split(",") if part]
    return tuple(path if path and not path.startswith("//") else f"{name}{colon}{path}" for name, colon, path in named)


def _entry(environ: Environ, start: Start) -> Iterable[bytes]:
    from kinetoscope.server.http.access import HEADERS

    del environ
    start("200 OK", [("Content-Type", "text/javascript; charset=utf-8"), *HEADERS.items()])
    return [_ENTRY]


def _adapted(workspace: Any) -> Wsgi:
    """The server as WSGI, with the headers of all its answers; who may ask is TensorBoard's to say."""
    from a2wsgi import ASGIMiddleware

    from kinetoscope.server.app import Server, application
    from kinetoscope.server.http.access import HEADERS

    served: Any = application(Server(workspace), None)
    app: Any = ASGIMiddleware(served)

    def answer(environ: Environ, start: Start) -> Iterable[bytes]:
        def starting(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            names = {name.lower() for name, _ in headers}  # Perfetto's page has a policy of its own
            missing = [(name, value) for name, value in HEADERS.items() if name.lower() not in names]
            return start(status, [*headers, *missing], *rest)

        response: Iterable[bytes] = app(environ, starting)
        return response

    return answer
