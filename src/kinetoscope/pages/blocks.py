"""What a page is made of: words, numbers with their units and meanings, and links; never markup.

A page is composed in Python from the results of analyses. The browser, the one-file report and the TensorBoard tab draw
its blocks; `screens` draws the same blocks on a terminal, as Markdown and in a notebook. So no face computes a number.
All text is plain text; a word between backquotes is shown as code. Numbers are exact, in the unit that is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, NamedTuple

from kinetoscope import dispatch
from kinetoscope.advisor.advice import Advice
from kinetoscope.advisor.finding import Finding
from kinetoscope.errors import UsageError
from kinetoscope.schema import Unit
from kinetoscope.views.exports.plain import all_fields, plain

Width = Literal["full", "wide", "narrow"]
"""Of a block: the whole page; or a wide block and the narrow ones that follow it stand side by side."""

IN_TEXT: Final = {"face": "text"}
"""Metadata of a field that a terminal, Markdown and a notebook draw, and the JSON of a page does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of a page. The front end knows it by its class in small letters, without `Block`: `bars`, `table`.

    Attributes:
        note: a few words beneath it.
    """

    note: str = ""
    width: Width = "full"


@dataclass(frozen=True, slots=True)
class Link:
    """A link; what it does not name stays as it is.

    Attributes:
        text: what is clicked; "" where a mark itself is the link.
        view: name of a page or "timeline".
        rank, cycle, steps: new values of the selection of the header; `steps` as the command line takes them (`3-5`).
        time: start and end in ns after the first event of the trace, selected or shown in the timeline.
        row: an event to be selected in the timeline.
        params: of the view, as its URL has them.
        file, line: a place in the source.
        clear: nothing of the run is selected any more but its rank.
    """

    text: str = ""
    view: str = ""
    rank: int | None = None
    steps: str | None = None
    time: tuple[int, int] | None = None
    row: int | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    line: int = 0
    cycle: int | None = None
    clear: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A share of a whole: a kind of time (its colour), a label, a value in the block's unit, what it means.

    `shade` is how much of its colour it has, to tell parts of one kind apart: 1 is all.
    """

    kind: str
    label: str
    value: float
    doc: str = ""
    link: Link | None = None
    shade: float = 1.0


@dataclass(frozen=True, slots=True)
class PartsBlock(Block):
    """One bar divided into parts, with its key beneath: value and share of each part."""

    title: str
    parts: Sequence[Part]
    unit: Unit = "ns"


@dataclass(frozen=True, slots=True)
class Stack:
    """One column of `ColumnsBlock`: a label, a value for each part (None where there is none), where a click leads.

    `apart` says why it is none of those that are averaged, as `warm-up`; it is marked, and does not set the scale.
    `mark` is a word for what stands out, as `straggler`; it stands above the column.
    """

    label: str
    values: Sequence[float | None]
    link: Link | None = None
    apart: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class ColumnsBlock(Block):
    """Stacked columns beside one another on one scale: steps, or ranks. `parts` have no values of their own."""

    title: str
    parts: Sequence[Part]
    stacks: Sequence[Stack]
    unit: Unit = "ns"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of `BarsBlock`.

    Attributes:
        label: its words; `name` has them in full.
        value, kind: how long it is, and its colour.
        share: of all there is, 0 to 1.
        detail: a few words.
        chosen: what stands below is about this one.
        before: what it was in another run, drawn beside it on the same scale.
        calls: how many share it, where `detail` says just that.
    """

    label: str
    kind: str
    value: float
    share: float | None = None
    detail: str = ""
    link: Link | None = None
    name: str = ""
    chosen: bool = False
    before: float | None = None
    calls: int | None = field(default=None, metadata=IN_TEXT)


@dataclass(frozen=True, slots=True)
class BarsBlock(Block):
    """The few that make most of it: ranked bars with their share, and the share of all so far."""

    title: str
    bars: Sequence[Bar]
    unit: Unit = "ns"
    cumulative: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """A number with its unit, or words. `text` is shown if it is there; `doc` on hover."""

    value: float | None = None
    unit: Unit = ""
    text: str = ""
    doc: str = ""
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of `FactsBlock`: what it is, what that means, a cell for each column."""

    label: str
    cells: Sequence[Cell]
    doc: str = ""


@dataclass(frozen=True, slots=True)
class FactsBlock(Block):
    """A few named numbers, in one column or one for each device."""

    title: str
    facts: Sequence[Fact]
    heads: Sequence[str] = ()
    width: Width = field(default="narrow", kw_only=True)


@dataclass(frozen=True, slots=True)
class FindingRow:
    """Something to change: time at stake per step (ns, from sure to possible), why, and how.

    Attributes:
        severity: critical, warning or note; certainty: sure, likely or guess.
        message: what is wrong, in a short sentence; detail: its numbers, and what the time at stake rests on.
        rule: what its rule is about, and what it checks.
        markdown: all of it as Markdown, for an issue or a pull request; "" where it is only mentioned.
        finding: what the rule found, with its reason and evidence.
    """

    code: str
    severity: str
    certainty: str
    low: float
    high: float
    message: str
    detail: str = ""
    change: str = ""
    links: Sequence[Link] = ()
    rule: str = ""
    markdown: str = ""
    finding: Finding | None = field(default=None, metadata=IN_TEXT)


@dataclass(frozen=True, slots=True)
class FindingsBlock(Block):
    """Findings, ranked by time at stake; `step` is the length of a step in ns, to which bars are drawn.

    Attributes:
        advice: where they come from: what they are counted in, and the commands that show more.
        more: how many are left out.
        headline: the first of them in a sentence, where a screen has no room for more than a line of the next ones;
            Markdown has all in full.
    """

    title: str
    findings: Sequence[FindingRow]
    step: float = 0.0
    advice: Advice | None = field(default=None, metadata=IN_TEXT)
    more: int = field(default=0, metadata=IN_TEXT)
    headline: str = field(default="", metadata=IN_TEXT)
    width: Width = field(default="wide", kw_only=True)


@dataclass(frozen=True, slots=True)
class ElsewhereBlock(Block):
    """The findings of another page, under the same selection: they take longer, so this page does not wait for them.

    Attributes:
        page: name of the page whose first block of findings is shown.
        limit: so many of them; a link leads to all.
    """

    title: str
    page: str
    limit: int = 3
    width: Width = field(default="wide", kw_only=True)


@dataclass(frozen=True, slots=True)
class TableBlock(Block):
    """The rows of an analysis under the selection of the header, sorted, searched and paged by the server.

    Attributes:
        analysis, params: what is asked; `params` as text.
        columns: the ones shown at first, in this order; empty for all.
        sort: column to sort by at first, `-` before it for descending; "" for the order of the analysis.
        filter: only rows of which this holds, as `column:comparison:value` (`device:eq:cpu`); "" for all.
        limit: rows that a report keeps.
        links: how a click on a row finds its place: names of the columns that hold a row number of an event, or start
            and end times, by the words "row", "start", "end", "rank", "step", "file", "line", "name".
    """

    title: str
    analysis: str
    params: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[str] = ()
    sort: str = ""
    filter: str = ""
    limit: int = 200
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Head:
    """A column of `RowsBlock`: its name, Polars type as text, unit and meaning."""

    name: str
    dtype: str
    unit: Unit = ""
    doc: str = ""


@dataclass(frozen=True, slots=True)
class RowsBlock(Block):
    """A table that no single analysis answers with: all its rows, which the page sorts and searches itself.

    Attributes:
        columns, rows: heads and values.
        scales: label of the unit that each column of numbers is shown in, and how many stored units make one of it.
        short: how a name among the values is shown, where that is not in full.
    """

    title: str
    columns: Sequence[Head]
    rows: Sequence[Sequence[Any]]
    scales: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    short: Mapping[str, str] = field(default_factory=dict)


class Sketch(NamedTuple):
    """A line of a chart where there is no room for a picture: words, and a curve or a bar.

    Attributes:
        label, text: what it is, and its number with the unit.
        kind: its colour.
        x, y: a curve.
        low, high: a bar from where to where, on the scale of all lines.
        more: texts of further columns, where the block has heads for them.
    """

    label: str
    text: str
    kind: str
    x: Sequence[float] = ()
    y: Sequence[float | None] = ()
    low: float = 0.0
    high: float = 0.0
    more: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ChartBlock(Block):
    """A Vega-Lite specification in the colours of light pages; a dark page puts its own colour of the kind for each.

    A datum may have a field `link` (a `Link` as JSON): a click on its mark follows it. A parameter named `brush` over
    `x` selects a time range. `sketch` says the same in a few lines of text, below `heads` where their columns need
    some; a line without a label stands beneath.
    """

    title: str
    spec: Mapping[str, Any]
    sketch: Sequence[Sketch] = field(default=(), metadata=IN_TEXT)
    heads: Sequence[str] = field(default=("", ""), metadata=IN_TEXT)


@dataclass(frozen=True, slots=True)
class IcicleBlock(Block):
    """A tree as nested rectangles, roots above: columns of equal length, parents before children.

    Attributes:
        name: of each node; parent: its place, −1 for a root; value: its total, children included; kind: its colour;
            detail: more words on hover.
        alike: how many of a tree with more nodes each stands for; empty where each stands for itself.
        other: its total in the run that this one is compared with; it is coloured by the difference. Empty for none.
        wide: which of both totals is its width and `value`: that of the run, `now`, or that of the other, `before`.
        short: how a name is shown, where that is not in full.
        picks: a parameter of the page that is set to the name of a node that the reader picks; "" for none.
        upward: the roots are below.
    """

    title: str
    name: Sequence[str]
    parent: Sequence[int]
    value: Sequence[float]
    kind: Sequence[str]
    detail: Sequence[str] = ()
    alike: Sequence[int] = ()
    other: Sequence[float] = ()
    wide: Literal["now", "before"] = "now"
    unit: Unit = "ns"
    short: Mapping[str, str] = field(default_factory=dict)
    picks: str = ""
    upward: bool = False


@dataclass(frozen=True, slots=True)
class TimelinesBlock(Block):
    """The timelines of this run and of the one that it is compared with, one above the other, moved together.

    `rank` and `other_rank` are whose lanes are drawn.
    """

    title: str
    rank: int
    other_rank: int


@dataclass(frozen=True, slots=True)
class RibbonBlock(Block):
    """One coloured band over time: segments by start.

    Attributes:
        texts: distinct names, kinds and lanes.
        start, end: of each segment, ns after the first event of the trace.
        name, kind, lane: of each segment, as places in `texts`; the lane is what it runs on.
        row: its event, −1 for none.
    """

    title: str
    texts: Sequence[str]
    start: Sequence[int]
    end: Sequence[int]
    name: Sequence[int]
    kind: Sequence[int]
    lane: Sequence[int]
    row: Sequence[int]


@dataclass(frozen=True, slots=True)
class RunMark:
    """Something that happened during a run, drawn above its step times.

    Attributes:
        kind: collection, save, evaluation, compile, window, phase, restart, end, or change.
        step: number of the step at which it is; until: the last step that it is about.
        words: what it is.
        count: how many of a kind fall into one place of the picture.
        link: where a click leads.
    """

    kind: str
    step: int
    until: int
    words: str
    count: int = 1
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class HistoryBlock(Block):
    """The step times of a whole run: bands over ranks, ranks that are behind, marks; a server has them at any scale.

    Attributes:
        size: steps of a bucket; step: number of the first one of each.
        fastest, median, slowest: of each bucket, ns; rank: whose step took longest.
        ranks: words for each row of `behind`.
        behind: of each row and bucket by how much the mean of its slowest rank is above the median of all, in
            thousandths of it; None where there is no step.
        marks: what happened.
        chosen: the steps that are selected, from the first to the last.
    """

    title: str
    size: int
    step: Sequence[int]
    fastest: Sequence[float]
    median: Sequence[float]
    slowest: Sequence[float]
    rank: Sequence[int]
    ranks: Sequence[str]
    behind: Sequence[Sequence[int | None]]
    marks: Sequence[RunMark] = ()
    chosen: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class RooflineBlock(Block):
    """Points below the roofs of a device, on logarithmic axes: operations a second over operations a byte.

    Attributes:
        parts: the time of the points by what limits them; the kinds are the colours of the points.
        texts: distinct names, details and kinds.
        name, detail, kind: of each point, as places in `texts`; those that take longest are first.
        at, over: where it stands along both axes; in the lane left of the axis what has no intensity.
        time: its area, in ns; calls: how many calls share it.
        intensity: operations a byte; None without arithmetic. rate: operations a second; bandwidth: bytes a second.
        efficiency: share of its limit that it reaches; headroom: ns beyond its limit.
        roofs: words of each limit, its ends as lists of x, y, and whether it was measured beside the datasheet.
        x, y: both ends of each axis; lane: where the lane begins, the same as the axis where there is none.
        picks: a parameter of the page that is set to the name of a point that the reader picks; chosen: that name.
    """

    title: str
    parts: Sequence[Part]
    texts: Sequence[str]
    name: Sequence[int]
    detail: Sequence[int]
    kind: Sequence[int]
    at: Sequence[float]
    over: Sequence[float]
    time: Sequence[int]
    calls: Sequence[int]
    intensity: Sequence[float | None]
    rate: Sequence[float | None]
    bandwidth: Sequence[float | None]
    efficiency: Sequence[float | None]
    headroom: Sequence[float | None]
    roofs: Sequence[tuple[str, Sequence[float], Sequence[float], bool]]
    x: tuple[float, float]
    y: tuple[float, float]
    lane: float
    picks: str = ""
    chosen: str = ""


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant of a history that matters; `time` is ns after the first event of the trace, if known."""

    label: str
    event: int
    time: int | None = None


@dataclass(frozen=True, slots=True)
class AllocatorBlock(Block):
    """The memory of a device as its allocator recorded it: bands by category, and the segments at an instant below.

    The front end asks for what is in view: bands of a stretch, the heap after an event, one allocation.

    Attributes:
        device: number of the device.
        events: how many its history has.
        span: its first and last instant, ns after the first event of the trace; None where no times were recorded.
        by: the axis at first.
        categories: name and meaning, in the order of the bands from below.
        moments: instants that matter; the first is shown at first.
        steps: where each begins.
        kept: events whose heap a report holds, in order.
    """

    title: str
    device: int
    events: int
    span: tuple[int, int] | None
    by: Literal["time", "event"]
    categories: Sequence[tuple[str, str]]
    moments: Sequence[Moment]
    steps: Sequence[Moment]
    kept: Sequence[int]


@dataclass(frozen=True, slots=True)
class LineTime:
    """A line of a file that took time: its number, nanoseconds in itself and in all, and a few words."""

    line: int
    self_time: float
    total_time: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SourceBlock(Block):
    """A file with the time of its lines in the gutter. Its text is asked for separately, if it may be read at all."""

    title: str
    file: str
    lines: Sequence[LineTime]


@dataclass(frozen=True, slots=True)
class Control:
    """A parameter of the page that its reader may change: a choice (`choices` of value and label), a slider, or runs.

    Attributes:
        runs: its value are ids of runs, separated by commas; `chosen`: the reader chose them.
    """

    name: str
    label: str
    value: str
    choices: Sequence[tuple[str, str]] = ()
    low: float = 0.0
    high: float = 0.0
    step: float = 0.0
    unit: str = ""
    doc: str = ""
    runs: bool = False
    chosen: bool = False


def chosen_value(params: Mapping[str, str], name: str, choices: Sequence[str], default: str) -> str:
    """The value of a parameter of the page.

    Raises:
        UsageError: it is none of its choices.
    """
    value = params.get(name, default)
    if value not in choices:
        raise UsageError(f"{name} is {value!r}; it can be {', '.join(choices)}")
    return value


@dataclass(frozen=True, slots=True)
class ControlsBlock(Block):
    """Parameters of the page; a change asks for the page anew."""

    controls: Sequence[Control]
    title: str = ""


@dataclass(frozen=True, slots=True)
class NoteBlock(Block):
    """A few sentences, where a picture would be empty, or to explain one; `alert`: to be read before anything else."""

    text: str
    title: str = ""
    link: Link | None = None
    alert: bool = False


@dataclass(frozen=True, slots=True)
class CodeBlock(Block):
    """Lines of code as they are; of a diff, `-` and `+` begin what goes out and what comes in."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, repr=False)
class Page:
    """A view: what it found, in one sentence; facts; then pictures and tables; at its end what it cannot tell.

    Attributes:
        name, title: of the view.
        sentence: what was found, with numbers.
        facts: a few words each, beneath the sentence.
        cannot: what this trace cannot tell, and what to record next time; left out, assumed or odd things.
        select: the ranks that it is about, as an address names them: its tables ask for the same.
        commands: what to type next, each with its purpose.
    """

    name: str
    title: str
    sentence: str
    facts: Sequence[str] = ()
    blocks: Sequence[Block] = ()
    cannot: Sequence[str] = ()
    select: Mapping[str, str] = field(default_factory=dict)
    commands: Sequence[tuple[str, str]] = field(default=(), metadata=IN_TEXT)

    def __str__(self) -> str:
        return dispatch.text(self)

    def __repr__(self) -> str:
        return f"<Page {self.name}: {self.sentence}>"

    def _repr_html_(self) -> str:
        return dispatch.html(self)

    def to_markdown(self, budget: int | None = None) -> str:
        """The page as Markdown, in about `budget` tokens at most.

        Raises:
            UsageError: not even its first part fits.
        """
        written: str = dispatch.call("markdown", self, budget)
        return written


def to_plain(thing: Any) -> Any:
    """A page, or any part of one, as JSON has it."""
    return plain(thing, block_fields)


def block_fields(value: Any) -> Any:
    """The fields of a dataclass as a dictionary, but for those of text alone; of a block also its kind, as `block`."""
    every = all_fields(value)
    if isinstance(value, _WITH_TEXT):
        every = {each.name: every[each.name] for each in fields(value) if not each.metadata}
    return {"block": type(value).__name__.removesuffix("Block").lower(), **every} if isinstance(value, Block) else every


_WITH_TEXT: Final = (Bar, FindingRow, FindingsBlock, ChartBlock, Page)
"""Classes with fields of `IN_TEXT`."""
