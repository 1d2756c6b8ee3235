"""`kinetoscope mcp FOLDER...`: answer AI assistants about the traces below these folders (Model Context Protocol).

The assistant's program starts it and talks to it over standard input and output. It writes nothing, and reads nothing
outside the folders; with --allow-run the assistant may also have it run commands of its choice, to try changes.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.resources import files

from kinetoscope.cli.shared.options import Parser
from kinetoscope.errors import MissingExtraError, UsageError


def run(arguments: list[str]) -> int:
    """Answer until the other side hangs up."""
    parser = Parser(prog="kinetoscope mcp", description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", nargs="*", help="folder of traces; nothing outside it is read")
    parser.add_argument(
        "--allow-run",
        action="store_true",
        help="let the assistant run commands here, to try changes",
    )
    parser.add_argument("--skill", action="store_true", help="print the skill file for agents")
    args = parser.parse_args(arguments)
    if args.skill:
        sys.stdout.write((files("kinetoscope.integrations.assistant") / "SKILL.md").read_text(encoding="utf-8"))
        return 0
    if not args.folder:
        raise UsageError("mcp takes a FOLDER of traces; `kinetoscope mcp --help` says more")
    if importlib.util.find_spec("mcp") is None:
        raise MissingExtraError("kinetoscope mcp", "mcp")
    from kinetoscope.integrations.mcp import serve

    if sys.stdin.isatty():
        sys.stderr.write("kinetoscope mcp waits for an assistant on standard input; Ctrl-C ends it\n")
    serve(args.folder, allow_run=args.allow_run)
    return 0
