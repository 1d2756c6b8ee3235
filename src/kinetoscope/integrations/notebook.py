"""`kinetoscope.view`: the page in a cell of a notebook. What draws it is imported when it is called."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kinetoscope.errors import MissingExtraError, UsageError
from kinetoscope.model.job import Job

if TYPE_CHECKING:
    from kinetoscope.integrations.widget import PageWidget

HEIGHT: Final = 640
"""Of the frame, in pixels."""


def view(of: Job | str | os.PathLike[str], *, page: str = "timeline", height: int = HEIGHT) -> PageWidget:
    """The page about a run, in a cell of a notebook.

    Args:
        of: a job, or what `read` takes.
        page: the view it opens with: overview, timeline, operators, …
        height: in pixels.

    Raises:
        MissingExtraError: anywidget is not installed.
        UsageError: there is no such view.
        InputError: there is no trace.
    """
    try:
        from kinetoscope.integrations.widget import PageWidget
    except ModuleNotFoundError as error:
        raise MissingExtraError("kinetoscope.view()", "notebook") from error
    from kinetoscope.pages import PAGES
    from kinetoscope.reading import read

    if page not in PAGES:
        raise UsageError(f"there is no view {page!r}; views: {', '.join(PAGES)}")
    return PageWidget(of if isinstance(of, Job) else read(of), page, height)
