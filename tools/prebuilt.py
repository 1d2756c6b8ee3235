"""Compile ahead of time what Numba would compile at a first call, into an extension beside the code: see `prebuilt`.

    python tools/prebuilt.py            for this Python and the processors that the platform promises
    python tools/prebuilt.py --native   for this very processor
    python tools/prebuilt.py --remove

Everything is used once (as `kinetoscope warm` does) to see the types of arguments that occur; Numba's own compiler
ahead of time then writes the extension. It needs a C compiler, for the few lines that make it a module of Python.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

os.environ["KINETOSCOPE_PREBUILT"] = "off"

from kinetoscope.algorithms import prebuilt
from kinetoscope.cli.shared.progress import Meter
from kinetoscope.cli.warm import compile_all

HERE = Path(prebuilt.__file__).parent
TABLE = HERE / f"{prebuilt.EXTENSION}.json"


def main() -> int:
    """Write both files."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--native", action="store_true", help="code for this processor; others may not run it")
    asked.add_argument("--remove", action="store_true", help="remove what was built")
    options = asked.parse_args()
    for each in (*HERE.glob(f"{prebuilt.EXTENSION}.*.so"), TABLE):
        each.unlink(missing_ok=True)
    if options.remove:
        return 0
    began = time.monotonic()
    compile_all(Meter())
    dispatchers = dict(_dispatchers())
    variants = {name: list(_variants(each)) for name, each in dispatchers.items()}
    symbols = _build(dispatchers, variants, "host" if options.native else "generic")
    files = {
        module: {
            "digest": prebuilt.digest(str(sys.modules[module].__file__)),
            "constants": prebuilt.constants(sys.modules[module]),
        }
        for module in sorted({name.partition(":")[0] for name in dispatchers})
    }
    TABLE.write_text(json.dumps({"files": files, "functions": symbols}))
    count = sum(map(len, symbols.values()))
    [built] = HERE.glob(f"{prebuilt.EXTENSION}.*.so")
    print(f"{built}: {count} functions, {built.stat().st_size / 1e6:.1f} MB, in {time.monotonic() - began:.0f} s")
    return 0


def _dispatchers() -> Iterator[tuple[str, Any]]:
    """Functions that are compiled on their own, by module and name."""
    from numba.core.caching import NullCache
    from numba.core.dispatcher import Dispatcher

    for module in [each for name, each in sorted(sys.modules.items()) if name.startswith("kinetoscope.")]:
        for name, each in list(vars(module).items()):
            alone = isinstance(each, Dispatcher) and not isinstance(vars(each).get("_cache"), NullCache)
            if alone and each.py_func.__module__ == module.__name__:
                yield f"{module.__name__}:{name}", each


def _variants(dispatcher: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Signatures with the kinds of their arguments, as the table has them."""
    for signature in dispatcher.nopython_signatures:
        kinds = [_kind(each) for each in signature.args]
        if None not in kinds:
            yield signature, kinds


def _kind(of: Any) -> Any:
    from numba import types

    if isinstance(of, types.Array) and of.layout == "C" and of.aligned:
        from numba.np.numpy_support import as_dtype

        return [as_dtype(of.dtype).str, of.ndim, not of.mutable]
    return str(of) if str(of) in prebuilt.SCALARS else None


def _build(dispatchers: dict[str, Any], variants: dict[str, list[Any]], processor: str) -> dict[str, Any]:
    from numba import pycc

    extension = cast(Any, pycc).CC(prebuilt.EXTENSION)
    extension.use_nrt, extension.target_cpu, extension.output_dir = False, processor, str(HERE)
    symbols: dict[str, Any] = {}
    for name, dispatcher in dispatchers.items():
        for signature, kinds in variants[name]:
            symbol = f"f{sum(map(len, symbols.values()))}"
            extension.export(symbol, signature)(dispatcher.py_func)
            symbols.setdefault(name, []).append([symbol, kinds])
    with _without_lock():
        extension.compile()
    return symbols


@contextlib.contextmanager
def _without_lock() -> Iterator[None]:
    """What is compiled runs without the interpreter's lock, as with `nogil=True`."""
    from numba.pycc import compiler

    module = cast(Any, compiler)
    of_numba = module.Flags

    def flags() -> Any:
        made = of_numba()
        made.release_gil = True
        return made

    module.Flags = flags
    try:
        yield
    finally:
        module.Flags = of_numba


if __name__ == "__main__":
    sys.exit(main())
