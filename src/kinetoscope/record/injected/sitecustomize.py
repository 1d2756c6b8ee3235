"""Python runs this module when it starts, as `kinetoscope record` put its folder on PYTHONPATH.

It does two things: it runs the `sitecustomize` that it hides, if there is one, and it waits until the process imports
torch. A process that never does is left as it was. Nothing here may raise.
"""

import contextlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_THIS_FOLDER = os.path.realpath(os.path.dirname(__file__))  # noqa: PTH120 - pathlib would be imported into every process


class _WhenTorchIsImported:
    """A finder that finds nothing itself: it lets the others find torch, and begins once that has been executed."""

    def __init__(self, plan: str, package: str) -> None:
        self.plan, self.package = plan, package
        self.looking = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:  # noqa: ARG002
        if name != "torch" or self.looking:
            return None
        self.looking = True
        try:
            spec = importlib.util.find_spec(name)  # some only ask whether it is there: we may be asked again
        finally:
            self.looking = False
        loader = spec.loader if spec else None
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self.begin()

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:  # a loader without a dictionary
            sys.stderr.write("kinetoscope: torch is not recorded, as it comes from an importer of another make.\n")
        return spec

    def begin(self) -> None:
        try:
            _find_package(self.package)
            from kinetoscope.record.always_on.running import begin

            begin(self.plan)
        except Exception as error:  # noqa: BLE001 - the program must run, whatever happens here
            why = f"nothing is recorded in process {os.getpid()}: {error!r}"
            sys.stderr.write(f"kinetoscope: {why}\n")
            _leave_note(self.plan, why)


def _leave_note(plan: str, why: str) -> None:
    """Let `kinetoscope record` know, for its last line."""
    import json

    with contextlib.suppress(OSError, ValueError, KeyError):
        folder = os.path.join(json.loads(plan)["control"], "failed")  # noqa: PTH118
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        with open(os.path.join(folder, str(os.getpid())), "w", encoding="utf-8") as file:  # noqa: PTH118, PTH123
            json.dump({"why": why}, file)


def _find_package(folder: str) -> None:
    """Make `import kinetoscope` work where it is not installed, without what else its folder holds.

    A folder of this name on the job's path, of traces say, is not the package: it has no file of it.
    """
    spec = importlib.util.find_spec("kinetoscope")
    if spec is not None and spec.origin is not None:
        package = os.path.dirname(spec.origin)  # noqa: PTH120
        if os.path.isfile(os.path.join(package, "record", "always_on", "running.py")):  # noqa: PTH113, PTH118
            return
        if spec.origin.endswith("__init__.py"):
            raise ImportError(f"the package kinetoscope in {package} is another version")
    spec = importlib.util.spec_from_file_location(
        "kinetoscope",
        os.path.join(folder, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[folder],
    )
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["kinetoscope"] = module
        spec.loader.exec_module(module)


def _note_timers() -> None:
    """Note whether the program uses the timer of faulthandler, of which there is one: ours must not end its."""
    import faulthandler

    begin = faulthandler.dump_traceback_later

    def dump_traceback_later(*args: Any, **kwargs: Any) -> None:
        noting.used_by_program = True
        begin(*args, **kwargs)

    noting: Any = dump_traceback_later
    noting.used_by_program, noting.__wrapped__ = False, begin
    faulthandler.dump_traceback_later = noting


def _run_hidden() -> None:
    """Run the `sitecustomize` that stands behind this one on the path."""
    rest = [each for each in sys.path if os.path.realpath(each or ".") != _THIS_FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_PLAN = os.environ.get("KINETOSCOPE_RECORD", "")
if _PLAN and "torch" not in sys.modules:
    sys.meta_path.insert(0, _WhenTorchIsImported(_PLAN, os.path.dirname(os.path.dirname(_THIS_FOLDER))))  # noqa: PTH120
    if '"hang": true' in _PLAN:
        _note_timers()
_run_hidden()
