"""`kinetoscope sql PATH "SELECT ..."`: an SQL query over the tables of all ranks; without a query, the list of tables.

Each table has a column `rank`. Times are in nanoseconds, sizes in bytes. The dialect is that of Polars. A query may
read other files by name, with read_csv('...') or read_parquet('...').
"""

from __future__ import annotations

from collections.abc import Iterator
from glob import glob

from kinetoscope.cli.shared.open_job import opened
from kinetoscope.cli.shared.options import PATHS, Parser, add_engine, add_output, add_reading
from kinetoscope.cli.shared.output import deliver, width, write_lines
from kinetoscope.errors import UsageError
from kinetoscope.views.terminal.lines import Line, plain
from kinetoscope.views.text import wrapped

_QUERIES = ("select ", "with ")


def run(arguments: list[str]) -> int:
    """List the tables, or run a query and write its answer."""
    parser = Parser(
        prog="kinetoscope sql", usage='kinetoscope sql [PATH... "SELECT ..."] [options]', description=__doc__
    )
    parser.add_argument("path", metavar="PATH", nargs="*", help=f"{PATHS}; the query in quotes comes last")
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
    with opened(args) as (job, _):
        result = job.sql(query)
    deliver(result, args)
    return 0


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
