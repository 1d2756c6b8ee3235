"""Runs a program as a user would who records it with `kinetoscope.profile`.

    python tests/zoo/runner.py FOLDER OPTIONS PROGRAM ARGUMENT...

OPTIONS are those of `profile`, as JSON. Where the framework has a callback, the program's trainer gets it. Else the
program runs inside `with profile(...)`, and `prof.step()` follows each statement that calls an optimizer's `step`: of
several optimizers in a loop the last.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import json
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_CALLED: Final = "__stepped__"


def main() -> None:
    """Run the program of the command line."""
    folder, options, program, *arguments = sys.argv[1:]
    sys.argv, sys.path[0] = [program, *arguments], str(Path(program).parent)
    tree = ast.parse(Path(program).read_text("utf-8"))
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = program
    given: dict[str, Any] = json.loads(options)
    with contextlib.ExitStack() as stack:
        if not _has_callback(ast.unparse(tree), folder, given):
            from kinetoscope import profile

            prof = stack.enter_context(profile(folder, **given))
            vars(module)[_CALLED] = _Steps(prof)
            tree = ast.fix_missing_locations(_Marked().visit(tree))
        exec(compile(tree, program, "exec"), vars(module))  # noqa: S102 - our own programs


class _Marked(ast.NodeTransformer):
    """Lets a call follow each statement `x.step(...)`, as a user would write it."""

    def visit_Expr(self, node: ast.Expr) -> Any:
        return self._followed(node, node.value)

    def visit_Assign(self, node: ast.Assign) -> Any:
        return self._followed(node, node.value)

    def _followed(self, node: ast.stmt, value: ast.expr) -> Any:
        if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "step"):
            return self.generic_visit(node)
        given = [value.func.value, *(each for each in value.args if isinstance(each, ast.Name))]
        call = ast.Expr(ast.Call(ast.Name(_CALLED, ast.Load()), given, []))
        return [node, ast.copy_location(call, node)]


class _Steps:
    """Ends a step after the last of the optimizers that step in turn."""

    def __init__(self, prof: Any) -> None:
        self._prof, self._seen, self._last = prof, list[int](), 0

    def __call__(self, *things: Any) -> None:
        import torch

        optimizer = next((each for each in things if isinstance(each, torch.optim.Optimizer)), None)
        state = getattr(optimizer, "gradient_state", None)  # of Accelerate: without it the call only accumulates
        if optimizer is None or (state is not None and not state.sync_gradients):
            return
        if threading.current_thread() is not threading.main_thread():  # another than the one that records
            return
        if not self._last:
            if id(optimizer) not in self._seen:
                self._seen.append(id(optimizer))
                return
            self._last = self._seen[-1]
        if id(optimizer) == self._last:
            self._prof.step()


def _has_callback(text: str, folder: str, options: dict[str, Any]) -> bool:
    """Give it to whatever trains, if the program uses a framework that has one."""
    if "lightning" in text:
        from lightning.pytorch import Trainer

        from kinetoscope.record.lightning import KinetoscopeCallback as OfLightning

        begin = Trainer.__init__

        def begun(self: Any, *given: Any, callbacks: Any = (), **more: Any) -> None:
            begin(self, *given, callbacks=[*callbacks, OfLightning(folder, **options)], **more)

        Trainer.__init__ = begun
        return True
    if "Trainer(" in text and "transformers" in text:
        from transformers import Trainer as HuggingFace

        from kinetoscope.record.huggingface import KinetoscopeCallback

        first = HuggingFace.__init__

        def made(self: Any, *given: Any, **more: Any) -> None:
            first(self, *given, **more)
            self.add_callback(KinetoscopeCallback(folder, **options))

        HuggingFace.__init__ = made
        return True
    if "deepspeed" in text:
        import deepspeed

        from kinetoscope.record.deepspeed import profile

        initialize = deepspeed.initialize

        def initialized(*given: Any, **more: Any) -> Any:
            engine, *rest = initialize(*given, **more)
            context = profile(engine, folder, **options)
            context.__enter__()
            atexit.register(context.__exit__, None, None, None)
            return engine, *rest

        deepspeed.initialize = initialized
        return True
    return False


if __name__ == "__main__":
    main()
