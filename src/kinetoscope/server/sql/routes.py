"""SQL from the page: over the declared tables, and over nothing else. What reads files is refused before it is run.

Polars's SQL has functions that are tables and read files (`read_csv('…')`, `read_parquet`, …). A page has no business
in the files of whoever runs the server, so such a query is not even planned; and the plan of what passes is looked at
for files, too. What passes is run in a process of its own, within bounds (`apart`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kinetoscope.model.job import Job
from kinetoscope.model.tables.sql import sql
from kinetoscope.model.trace.strings import json_object
from kinetoscope.schema import Result
from kinetoscope.server.errors import BadValueError, ForbiddenError
from kinetoscope.server.sql.process import ChildProcess

MAX_QUERY_CHARACTERS: Final = 20_000
"""Characters of a query."""

_MAX_TICKET_CHARACTERS: Final = 64
"""Characters of a ticket."""

_COMMENTS: Final = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.S)
_READING_FUNCTIONS: Final = re.compile(
    r"read_(?:csv|parquet|ipc|json|ndjson)|(?:read|scan)_\w*[\s\"`\]]*\(", re.IGNORECASE
)
"""The functions of Polars 2 that read files, wherever they stand, be it in a text; and what others could be called."""

_FIRST_WORD: Final = re.compile(r"[\s(]*([a-z]+)", re.IGNORECASE)
_ALLOWED_WORDS: Final = ("select", "with", "values", "explain", "show", "from")


@dataclass(frozen=True, slots=True)
class Query:
    """A query from the body of a request, how its rows are arranged, and the ticket by which it can be stopped."""

    text: str
    options: tuple[tuple[str, str], ...]
    ticket: str = ""


def parsed_query(body: bytes) -> Query:
    """The body: `{"query": "SELECT …", "offset": 0, "limit": 200, "sort": "-calls", "format": ""}`.

    Raises:
        BadValueError: it is no such JSON.
    """
    request = _json_with(body, "query")
    text = request["query"]
    if not text.strip():
        raise BadValueError("the query is empty", "SELECT name, sum(duration) FROM kernels GROUP BY name")
    if len(text) > MAX_QUERY_CHARACTERS:
        raise BadValueError(f"the query has {len(text):,} characters; it can have {MAX_QUERY_CHARACTERS:,}")
    return Query(text, tuple(_options(request)), ticket(request))


def ticket(request: Mapping[str, Any]) -> str:
    """The word by which a query can be stopped, "" if it has none."""
    word = request.get("ticket")
    return word[:_MAX_TICKET_CHARACTERS] if isinstance(word, str) else ""


def ticket_to_stop(body: bytes) -> str:
    """The query that shall end: `{"ticket": "…"}`.

    Raises:
        BadValueError: it is no such JSON.
    """
    return ticket(_json_with(body, "ticket"))


def _json_with(body: bytes, key: str) -> dict[str, Any]:
    """The object in a body, which has a text under this key."""
    request = json_object(body)
    if not isinstance(request.get(key), str):
        raise BadValueError(f'the body is JSON with a text "{key}"')
    return request


def _options(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The other members, as pairs of a URL's query: several values of a name one by one."""
    for name, value in request.items():
        if name not in ("query", "ticket"):
            values = value if isinstance(value, list) else [value]
            yield from ((name, str(each)) for each in values if each not in (None, "", False))


def require_harmless(text: str) -> None:
    """Refuse a query that would read anything but the declared tables.

    Raises:
        ForbiddenError: it would.
    """
    bare = _COMMENTS.sub(" ", text)
    if function := _READING_FUNCTIONS.search(text) or _READING_FUNCTIONS.search(bare):
        hint = "`kinetoscope sql` on the command line may."
        raise ForbiddenError(f"{function[0].rstrip('( ')} reads files, which the page may not", hint)
    first = _FIRST_WORD.match(bare)
    if first is None or first[1].lower() not in _ALLOWED_WORDS:
        raise ForbiddenError("a query here begins with SELECT or WITH")


def query_result(job: Job, text: str, ticket: str = "") -> Result:
    """The answer of `Job.sql`, found in another process.

    Raises:
        ForbiddenError: the query would read files.
        UsageError: it is wrong, or takes too much memory or time.
        InputError: no rank can be read.
    """
    with ChildProcess(ticket=ticket) as apart:
        return sql(job, text, apart.execute)
