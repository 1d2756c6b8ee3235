"""`kinetoscope sql PATH "SELECT ..."`: an SQL query over the tables of all ranks; without a query, the list of tables.

Each table has a column `rank`. Times are in nanoseconds, sizes in bytes. The dialect is that of Polars. A query may
read other files by name, with read_csv('...') or read_parquet('...'). Of several runs, given as NAME=PATH each, the
tables have the rows of all, and the column `run`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from glob import glob
from pathlib import Path

from kinetoscope.cli.shared.open_job import opened, opened_at
from kinetoscope.cli.shared.options import PATHS, Parser, add_engine, add_output, add_reading
from kinetoscope.cli.shared.output import deliver, width, write_lines
from kinetoscope.errors import UsageError
from kinetoscope.views.terminal.lines import Line, plain
from kinetoscope.views.text import wrapped

_QUERIES = ("select ", "with ")
_NAMED = re.compile(r"[A-Za-z_][\w.-]*=")


def run(arguments: list[str]) -> int:
    """List the tables, or run a query and write its answer."""
    parser = Parser(
        prog="kinetoscope sql", usage='kinetoscope sql [PATH... "SELECT ..."] [options]', description=__doc__
    )
    parser.add_argument(
        "path", metavar="PATH", nargs="*", help=f"{PATHS}; NAME=PATH for each of several runs; the query comes last"
    )
    add_reading(parser, path=False)
    add_engine(parser)
    add_output(parser)
    args = parser.parse_args(arguments)
    args.where = args.sort = args.columns = ""
    *args.path, query = args.path or [""]
    if not args.path and not query.lower().startswith(_QUERIES):
        write_lines(_tables(), args.output)
        return 0
    if not args.path or any(path.lower().startswith(_QUERIES) for path in args.path) or glob(query):  # noqa: PTH207
        raise UsageError("sql takes the paths first, then one query: kinetoscope sql PATH 'SELECT ...'")
    runs = _runs(args.path)
    with ExitStack() as stack:
        if runs:
            from kinetoscope.model.tables.sql import sql

            result = sql({name: stack.enter_context(opened_at(args, path))[0] for name, path in runs.items()}, query)
        else:
            result = stack.enter_context(opened(args))[0].sql(query)
    deliver(result, args)
    return 0


def _runs(paths: Sequence[str]) -> dict[str, str]:
    """The runs that are named as NAME=PATH; none if the paths are those of one job.

    Raises:
        UsageError: only some are named, or two have one name.
    """
    pairs = [path.partition("=") for path in paths if _NAMED.match(path) and not Path(path).exists()]
    if not pairs:
        return {}
    runs = {name: path for name, _, path in pairs}
    if len(runs) < len(paths):
        raise UsageError(
            "of several runs each has a name of its own: kinetoscope sql before=PATH after=PATH 'SELECT ...'"
        )
    return runs


def _tables() -> Iterator[Line]:
    from kinetoscope.model.tables.sql import schema_of
    from kinetoscope.model.tables.tables import TABLES

    schemas = {name: schema_of(name) for name in TABLES}
    room = max(len(column.name) for schema in schemas.values() for column in schema)
    types = max(len(str(column.dtype)) for schema in schemas.values() for column in schema)
    for name, schema in schemas.items():
        yield ((name, "bold"), (f"  {TABLES[name].doc}", ""))
        for column in schema:
            doc = column.doc + (f" ({column.unit})" if column.unit else "")
            first, *rest = wrapped(doc, max(width() - room - types - 6, 30))
            yield (
                ("  ", ""),
                (f"{column.name:<{room}}", ""),
                (f"  {column.dtype!s:<{types}}  ", "dim"),
                (first, ""),
            )
            yield from (plain(" " * (room + types + 6) + line) for line in rest)
        yield plain()
    yield plain('kinetoscope sql PATH "SELECT name, sum(duration) FROM kernels GROUP BY name" asks.', "dim")
