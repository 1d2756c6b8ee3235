"""`kinetoscope.view`: the page in a cell of a notebook. What draws it is imported when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kinetoscope.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from kinetoscope.integrations.widget import PageWidget
    from kinetoscope.model.job import Job, Readable

HEIGHT: Final = 640
"""Of the frame, in pixels."""


def view(of: Job | Readable, *, page: str = "timeline", height: int = HEIGHT) -> PageWidget:
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
    from kinetoscope.model.job import job_of
    from kinetoscope.pages import PAGES

    if page not in PAGES:
        raise UsageError(f"there is no view {page!r}; views: {', '.join(PAGES)}")
    return PageWidget(job_of(of), page, height)
