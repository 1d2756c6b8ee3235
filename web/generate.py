"""Writes what the front end shares with Python: types of blocks, colours, cases of number formatting, and digests.

`python web/generate.py` writes src/api/blocks.ts and answers.ts, src/base/kinds.ts and tests/numbers.json. `--check`
writes nothing and says what is stale, the built bundle included: beside it stands the digest of the sources that it was
built from, which `--stamp` (the last step of `make web`) renews. None of this needs Node.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import inspect
import json
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from kinetoscope.views.exports.plain import field_names

WEB = Path(__file__).parent
STATIC = WEB.parent / "src" / "kinetoscope" / "server" / "static"
STAMP = "SOURCES.sha256"
BUILT = ("THIRD_PARTY.txt", "app.css", "app.js", "history.js", "index.html", "report.js", "timeline.js", "vega.js")

_MADE = "// Made by web/generate.py; do not edit.\n"
_ROOT = ("build.mjs", "index.html", "package-lock.json", "package.json", "tsconfig.json")  # and all of src/
_NAMES: dict[Any, str] = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def main(argv: list[str] | None = None) -> int:
    """Writes, checks or stamps; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if anything is stale")
    parser.add_argument("--stamp", action="store_true", help="write the digest of the sources beside the bundle")
    args = parser.parse_args(argv)
    if args.stamp:
        (STATIC / STAMP).write_text(stamp(), encoding="utf-8")
        return 0
    wanted = {
        "src/api/blocks.ts": blocks(),
        "src/api/answers.ts": answers(),
        "src/base/kinds.ts": kinds(),
        "tests/numbers.json": numbers(),
    }
    stale = [name for name, text in wanted.items() if _read(WEB / name) != text]
    if not args.check:
        for name in stale:
            (WEB / name).parent.mkdir(parents=True, exist_ok=True)
            (WEB / name).write_text(wanted[name], encoding="utf-8")
        return 0
    said = [f"web/{name} is stale: run python web/generate.py" for name in stale]
    if any(not (STATIC / name).exists() for name in BUILT) or _read(STATIC / STAMP) != stamp():
        said.append("src/kinetoscope/server/static was built from other sources: run make web")
    sys.stderr.writelines(f"{line}\n" for line in said)
    return 1 if said else 0


# --- digests -------------------------------------------------------------------------------------------------------


def stamp() -> str:
    """Digests of the sources as a whole and of each built file, as `sha256sum` writes them."""
    lines = [f"{_sources()}  web"]
    lines += [f"{hashlib.sha256((STATIC / name).read_bytes()).hexdigest()}  {name}" for name in BUILT]
    return "".join(f"{line}\n" for line in lines)


def _sources() -> str:
    """One digest of all that goes into the bundle: paths and contents, in order."""
    whole = hashlib.sha256()
    inside = sorted(path.relative_to(WEB).as_posix() for path in (WEB / "src").rglob("*") if path.is_file())
    for name in (*_ROOT, *inside):
        content = hashlib.sha256((WEB / name).read_bytes()).hexdigest()
        whole.update(f"{name} {content}\n".encode())
    return whole.hexdigest()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


# --- types ---------------------------------------------------------------------------------------------------------


def blocks() -> str:
    """pages/blocks.py as TypeScript: an interface for each dataclass, a union of all blocks."""
    from kinetoscope.pages import blocks as module
    from kinetoscope.schema import Unit

    every = [each for each in vars(module).values() if isinstance(each, type) and dataclasses.is_dataclass(each)]
    classes = [each for each in every if each.__module__ == module.__name__ and each is not module.Block]
    kinds = [each for each in classes if issubclass(each, module.Block)]
    parts = [_MADE, f"export type Unit = {_typed(Unit)};\n"]
    parts += [_interface(each, is_block=each in kinds) for each in classes]
    parts.append(f"export type Block = {' | '.join(_name(each) for each in kinds)};\n")
    return "\n".join(parts)


def answers() -> str:
    """What the other endpoints answer, and what heads a tile, as TypeScript: an interface for each type."""
    from kinetoscope.pages.blocks import Page
    from kinetoscope.schema import Unit
    from kinetoscope.server.app import Server, answered, routes
    from kinetoscope.server.runs.workspace import Workspace
    from kinetoscope.server.timeline.tile import TileHeader

    reached: dict[type, None] = {}
    for hint in (*answered(routes(Server(Workspace(())))).values(), TileHeader):
        if hint is not Page:
            _reach(hint, reached)
    parts = [_MADE, 'import type { Unit } from "./blocks";\n']
    parts += [_interface(each, is_block=False) for each in reached]
    text = "\n".join(parts)
    return text.replace(f": {_typed(Unit)};", ": Unit;")


def _reach(hint: Any, reached: dict[type, None]) -> None:
    """Take note of the dataclasses and named tuples that a type is made of."""
    if hint == _dtype():
        return
    if isinstance(hint, type) and field_names(hint) is not None:
        if hint not in reached:
            reached[hint] = None
            for _, each in _fields(hint):
                _reach(each, reached)
        return
    for each in typing.get_args(hint):
        _reach(each, reached)


def _dtype() -> Any:
    """The type of a column's type, which is a text in JSON."""
    from kinetoscope.schema import DType

    return DType


def _fields(of: type) -> list[tuple[str, Any]]:
    """Names and types of fields that the page gets; how values of several ranks become one it need not know."""
    from kinetoscope.schema import Across

    hints = typing.get_type_hints(of)
    of_text = {each.name for each in dataclasses.fields(of) if each.metadata} if dataclasses.is_dataclass(of) else ()
    names = (name for name in field_names(of) or () if name not in of_text)
    return [(name, hints[name]) for name in names if hints[name] != Across | None]


def _interface(of: type, *, is_block: bool) -> str:
    lines = [f"  readonly block: {json.dumps(_name(of).lower())};"] if is_block else []
    lines += [f"  readonly {name}: {_typed(hint)};" for name, hint in _fields(of)]
    doc = (inspect.getdoc(of) or "").partition("\n")[0]
    return f"/** {doc} */\nexport interface {_name(of)} {{\n" + "\n".join(lines) + "\n}\n"


def _name(of: type) -> str:
    return of.__name__ if of.__name__ == "Block" else of.__name__.removesuffix("Block")


def _typed(hint: Any) -> str:
    """A type of Python as the JSON of `to_plain` has it."""
    if hint in _NAMES:
        return _NAMES[hint]
    if hint is Any:
        return "unknown"
    if hint == _dtype():
        return "string"
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " | ".join(json.dumps(arg) for arg in args)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(_typed(arg) for arg in args)
    if origin in (Sequence, list) or (origin is tuple and args[-1] is Ellipsis):
        inner = _typed(args[0])
        return f"readonly ({inner})[]" if " " in inner else f"readonly {inner}[]"
    if origin is tuple:
        return f"readonly [{', '.join(_typed(arg) for arg in args)}]"
    if origin in (Mapping, dict):
        return f"Readonly<Record<{_typed(args[0])}, {_typed(args[1])}>>"
    if isinstance(hint, type):
        return _name(hint)
    raise TypeError(f"web/generate.py knows no TypeScript for {hint!r}")


# --- colours and numbers -------------------------------------------------------------------------------------------


def kinds() -> str:
    """views/charts/palette.py as TypeScript."""
    from kinetoscope.views.charts import palette

    colours, categories = (
        {name: {"light": ink.light, "dark": ink.dark} for name, ink in inks.items()}
        for inks in (palette.KINDS, palette.CATEGORIES)
    )
    owners = [{"light": ink.light, "dark": ink.dark} for ink in palette.OWNERS]
    means = dict(sorted(palette._MEANS.items()))
    return (
        f"{_MADE}\n/** What colour means: each kind of time on light and on dark pages. */\n"
        f"export const KINDS: Readonly<Record<string, {{ light: string; dark: string }}>> = {_literal(colours)};\n\n"
        "/** What bytes of memory are held for. */\n"
        "export const CATEGORIES: Readonly<Record<string, { light: string; dark: string }>> ="
        f" {_literal(categories)};\n\n"
        "/** What belongs to one of several owners: told apart, with no meaning of their own. */\n"
        f"export const OWNERS: readonly {{ light: string; dark: string }}[] = {_literal(owners)};\n\n"
        "/** Names of columns and categories that stand for a kind. */\n"
        f"export const MEANS: Readonly<Record<string, string>> = {_literal(means)};\n"
    )


def _literal(thing: object) -> str:
    return json.dumps(thing, indent=2, ensure_ascii=False)


def numbers() -> str:
    """Numbers, units and what views/numbers.py makes of them."""
    from kinetoscope.schema import Unit
    from kinetoscope.views.numbers import scale, shown, significant

    sizes = [0, 1, 9, 12, 99, 100, 999, 1000, 1234, 99_999, 100_000, 123_456, 999_499, 999_500, 1_000_000, 1e7, 5e9]
    values = [*sizes, -5, -1234567, 12345678901, 0.5, 0.123456, 0.999, 0.9995, 9.995, 99.95, 999.4, 999.5, 0.001]
    values += [0.00099, 1e-9, -0.0004, -0.25, 2.675, 1.005, 31.65, 1.125, 1.375, 1000.5, 1001.5, 1e15]
    columns: list[list[int | float | None]] = [
        [],
        [0],
        [1, 1000],
        [1, 10, 1e9],
        [5e3, 7e3, 9e8],
        [1e3, 1e4, 1e12],
        [None, 12],
        [999, 1000, 1001],
    ]
    units: tuple[Unit, ...] = typing.get_args(Unit)
    whole = [value for value in values if value == int(value)]
    made: dict[str, list[Any]] = {
        "significant": [[value, significant(float(value))] for value in values],
        "shown": [[value, unit, shown(int(value), unit)] for unit in units for value in whole]
        + [[value, unit, shown(value, unit)] for unit in units for value in values if value != int(value)],
        "scale": [[column, unit, dataclasses.asdict(scale(column, unit))] for unit in units for column in columns],
    }
    return (
        "{\n"
        + ",\n".join(
            f"{json.dumps(key)}: [\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]"
            for key, cases in made.items()
        )
        + "\n}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
