"""The tools of `integrations.assistant` by the Model Context Protocol, over standard input and output.

An assistant that speaks it starts `kinetoscope mcp FOLDER` and asks. Nothing is written, nothing outside the folders is
read, nothing goes over a network; with `--allow-run` it may also have a program run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

from kinetoscope import __version__
from kinetoscope.errors import KinetoscopeError
from kinetoscope.integrations.assistant.runs import Folders
from kinetoscope.integrations.assistant.tools import Tool, call, tools_of
from kinetoscope.integrations.assistant.wording import DATA, error_line

INSTRUCTIONS: Final = (
    "Kinetoscope answers questions about traces of PyTorch jobs. Begin with list_runs, then advise; run_analysis, diff"
    f" and sql look closer. Times are nanoseconds, sizes bytes. {DATA}"
)

_SLOTS: Final = 2
"""Questions that are answered side by side; each may use all cores."""


def serve(folders: Sequence[str], *, allow_run: bool = False) -> None:
    """Answer until the other side hangs up; with `allow_run` also with trials of a command that it names.

    Raises:
        NotFoundError: one of the folders is not there.
    """
    anyio.run(_serve, Folders(folders, allow_run=allow_run))


def server(folders: Folders) -> Server[Any]:
    """The protocol's side of the tools."""
    limit = anyio.CapacityLimiter(_SLOTS)

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        del context, params
        return types.ListToolsResult(tools=[_described(tool) for tool in tools_of(folders)])

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        del context
        return await anyio.to_thread.run_sync(_answer, folders, params.name, params.arguments, limiter=limit)

    return Server(
        "kinetoscope",
        version=__version__,
        title="Kinetoscope",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _serve(folders: Folders) -> None:
    served = server(folders)
    async with stdio_server() as (reads, writes):
        await served.run(reads, writes, served.create_initialization_options())


def _described(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=not tool.runs,
        destructive_hint=tool.runs,
        idempotent_hint=not tool.runs,
        open_world_hint=tool.runs,
    )
    return types.Tool(name=tool.name, description=tool.doc, input_schema=tool.schema, annotations=hints)


def _answer(folders: Folders, name: str, arguments: dict[str, Any] | None) -> types.CallToolResult:
    """The answer, or one line that says why there is none."""
    try:
        text, wrong = call(folders, name, arguments), False
    except (KinetoscopeError, MemoryError) as error:
        text, wrong = error_line(error), True
    except Exception as error:  # noqa: BLE001 - the next question must still be answered
        sys.stderr.write(f"kinetoscope mcp: {name}: {error_line(error)}: {error!r:.300}\n")
        text, wrong = error_line(error), True
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=wrong)
