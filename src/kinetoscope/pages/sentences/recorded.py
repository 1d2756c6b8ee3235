"""What was recorded, in a few words: read from the rows of `trace_info`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import polars as pl

from kinetoscope.model.answer import Partial
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.timeline.counters import device_titles
from kinetoscope.model.trace.symptoms import DAMAGED
from kinetoscope.model.trace.text import listed, number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.numbers import grouped, shown, significant
from kinetoscope.views.sentences import Sentence, each, say

WORK_BEFORE: Final = "WORK_BEFORE"
"""Code of the symptom that work from before the recording was left out."""

_NUMBER: Final = re.compile(r"\d{1,9}")


def values(info: pl.DataFrame, topic: str, item: str) -> list[str]:
    """The values of an item, one for each rank."""
    return info.filter((pl.col("topic") == topic) & (pl.col("item") == item)).get_column("value").to_list()


def name(info: pl.DataFrame, path: str) -> str:
    """The file, if it is one; else what the user named."""
    files = values(info, "file", "name")
    return files[0] if len(files) == 1 else path


def facts(info: pl.DataFrame, steps: pl.DataFrame) -> tuple[str, ...]:
    """Ranks, devices, steps, events, date."""
    ranks = steps.get_column("rank").unique().sort().to_list()
    worlds = [int(value) for value in values(info, "run", "world_size") if value.isdecimal() and len(value) < 10]
    world = max(worlds, default=0)
    of = f" of {grouped(world)}" if world > max(len(ranks), 1) else ""
    events = sum(int(value) for value in values(info, "file", "events"))
    windows = [int(value.split()[0]) for value in values(info, "time", "window")]
    count = steps.height // max(len(ranks), 1)
    step_counts = [int(match[0]) for match in map(_NUMBER.match, values(info, "time", "steps")) if match]
    marked = sum(step_counts) // max(len(ranks), 1)
    of_all = f" of {grouped(marked)}" if marked > count else ""
    only = f"rank {ranks[0]}{of}" if ranks and (ranks[0] or of) else ""
    words = (
        f"{grouped(len(ranks))}{of} ranks" if len(ranks) > 1 else only,
        _devices(info),
        f"{grouped(count)}{of_all} step{'s' * (max(marked, count) != 1)}" if has_steps(info) else "no steps",
        _throughput(info, len(ranks)),
        f"{grouped(events)} events" + (f" in {shown(max(windows), 'ns')}" if windows else ""),
        *(value[:10] for value in values(info, "time", "start")[:1]),
    )
    return tuple(fact for fact in words if fact)


def _throughput(info: pl.DataFrame, ranks: int) -> str:
    """`1,234 samples/s`: of all ranks together; "" where a rank does not tell."""
    rates = [float(value.split()[0]) for value in values(info, "time", "throughput")]
    return f"{significant(sum(rates))} samples/s" if rates and len(rates) >= ranks else ""


def _devices(info: pl.DataFrame) -> str:
    """`8 × NVIDIA H100`: the devices that did something; "" where none is described."""
    rows = info.filter(topic="used device").rename({"value": "name"})
    rows = rows.unique(["rank", "item"], maintain_order=True)  # each cycle of a rank lists them again
    counted = rows.with_columns(pl.col("name").replace("unnamed", "device")).group_by("name", maintain_order=True).len()
    return ", ".join(f"{count} × {name}" if count > 1 or name == "device" else name for name, count in counted.rows())


_LABELS: Final = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Number of the device."),
    Column("label", pl.String, "What the timeline calls the device."),
)


def device_labels(job: Job) -> dict[int, str]:
    """The label of each device, as on the timeline: `GPU 0`, `MTIA 17`; of several on different ranks the first."""
    rows = job.map(_labels_of_trace, _LABELS, ALL).frame.select("device", "label").rows()
    return dict(reversed(rows))


def _labels_of_trace(trace: Trace, _: Selection) -> Partial:
    titles = device_titles(trace)
    return Partial(pl.DataFrame({"device": list(titles), "label": list(titles.values())}, schema=_LABEL_TYPES))


_LABEL_TYPES: Final = {"device": pl.Int64, "label": pl.String}


def damage(info: Result) -> tuple[Sentence, ...]:
    """Sentences about damaged files, and how much of them is lost."""
    is_damage = (pl.col("topic") == "file") & (pl.col("item") == "damage")
    several = info.frame.get_column("rank").n_unique() > 1
    by_message = info.frame.filter(is_damage).group_by("value", maintain_order=True).agg("rank")
    said = []
    for value, ranks in by_message.select("value", "rank").rows():
        message = _message(info, is_damage & (pl.col("value") == value))
        which = each(info, "rank", is_damage & (pl.col("value") == value)).words(listed(ranks))
        said.append(say("Rank {which}: {message}", which=which, message=message) if several else message)
    return tuple(said)


def health(info: Result, notes: Sequence[Note] = ()) -> tuple[Note, ...]:
    """Remarks on what is odd, the worst first; what several ranks have is said of the first of them.

    `notes`: of the job, besides those of `trace_info`.
    """
    rows = info.frame.filter(pl.col("topic") == "health").group_by("item", maintain_order=True)
    messages = [
        Note(note.code, note, "warning") for note in dict.fromkeys((*notes, *info.notes)) if note.code != DAMAGED
    ]
    for item, message, rank, ranks in rows.agg(
        pl.col("value", "rank").first(), others=pl.col("rank").n_unique()
    ).rows():
        severity, _, code = item.partition(" ")
        several = f" (Rank {rank}; {number_of(ranks - 1, 'other')} alike.)" if ranks > 1 else ""
        messages.append(Note(code, f"{message}{several}", severity))
    return tuple(sorted(messages, key=lambda note: ("error", "warning", "note").index(note.severity)))


def _message(info: Result, where: pl.Expr) -> Sentence:
    """A sentence that stands in the table."""
    values = each(info, "value", where)
    assert isinstance(values.value, tuple)
    return say("{message}", message=values.words(values.value[0]))


def has_device_work(info: pl.DataFrame) -> bool:
    """Whether there was any kernel, copy or set."""
    return info.filter((pl.col("topic") == "events") & pl.col("item").str.ends_with("on devices")).height > 0


def has_stacks(info: pl.DataFrame) -> bool:
    """Whether Python's calls, or the stacks of operators, were recorded on any rank."""
    return any("recorded" in value or value == "on" for value in values(info, "options", "with_stack"))


def has_steps(info: pl.DataFrame) -> bool:
    """Are there steps, marked or proposed; if not, the whole window is one."""
    every = values(info, "time", "steps")
    return bool(every) and not any("none marked" in value for value in every)


def has_work_before(info: pl.DataFrame) -> bool:
    """Whether a device was busy with work from before the recording."""
    code = pl.col("item").str.split(" ").list.last()
    return info.filter((pl.col("topic") == "health") & (code == WORK_BEFORE)).height > 0
