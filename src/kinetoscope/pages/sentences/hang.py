"""Why a job does not go on, in sentences: what happened, who, where in the code, how sure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kinetoscope.analyses import asked
from kinetoscope.model.analysis import Question
from kinetoscope.model.hangs.verdict import Cause
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.schema import Result
from kinetoscope.views.numbers import grouped
from kinetoscope.views.sentences import EMPTY, Quantity, Sentence, cell, code, join, say
from kinetoscope.views.text import middle, printable

_NAME_CELLS: Final = 32
_LINE_CELLS: Final = 48
_LIST_CELLS: Final = 40
_DIFFERENCE_CELLS: Final = 90

_CERTAINTY: Final = {
    "sure": "This is sure: the records prove it.",
    "likely": "This is likely, not proven.",
    "guess": "This is a guess.",
}

Row = Mapping[str, Any]


def hang_sentence(result: Result, number: int = 1) -> Sentence:
    """The sentences about a verdict of `hang`, by verdict; that there are no records where it has none."""
    rows = result.frame.filter(verdict=number)
    if not rows.height:
        return say("No records of a hang are here: no dump of the Flight Recorder, no stacks of hosts.")
    row = rows.row(0, named=True)
    said = _SAID[row["cause"]](result, row)
    sure = _CERTAINTY[row["certainty"]] if row["cause"] not in ("no hang", "unknown") else ""
    if row["ended"] and row["cause"] == "rank ended":  # that much is recorded
        sure = sure.replace("This is", "That this is the cause is") if row["certainty"] != "sure" else sure
    return join([said, _who_waits(result, row), sure])


def hang_question(job: Job, select: Selection) -> dict[str, Question]:
    """The question about a hang, where there is nothing but what ranks leave of one: it is the first thing to say."""
    alone = all(each.is_of_hang for each in job.sources)
    return {"hang": asked("hang", select=select)} if alone else {}


def hang_if_alone(results: Mapping[str, Result]) -> Sentence:
    """The answer to `hang_question`; nothing where it was not asked."""
    return hang_sentence(results["hang"]) if "hang" in results else EMPTY


def remedy_of(result: Result, number: int = 1) -> Sentence:
    """The advice on a verdict."""
    return say("{remedy}", remedy=cell(result, "remedy", verdict=number))


def _of(result: Result, row: Row, column: str) -> Quantity:
    return cell(result, column, verdict=row["verdict"])


def _ranks(result: Result, row: Row, column: str = "ranks") -> Quantity:
    """`rank 3`, `ranks 0-2, 4`; of many the first."""
    text = row[column] or ""
    if len(text) > _LIST_CELLS:
        text = f"{text[:_LIST_CELLS].rpartition(',')[0]}, …"
    return _of(result, row, column).words(f"rank{'s' * (not text.isdecimal())} {text}")


def _who(result: Result, row: Row) -> Quantity:
    ranks = _ranks(result, row)
    return ranks.words(ranks.text.capitalize())


def _plain(text: str, cells: int) -> str:
    """A text of a dump as words of a sentence, where it is no name between backquotes."""
    return middle(printable(" ".join(text.split())).replace("`", "'"), cells)


def _is_one(row: Row) -> bool:
    return (row["ranks"] or "").isdecimal()


def _line(result: Result, row: Row, column: str = "line", before: str = " at ") -> Sentence:
    """` at train.py:88`; nothing where that is not known."""
    if not row[column]:
        return EMPTY
    line = _of(result, row, column)
    return say("{before}{line}", before=before, line=line.words(code(middle(row[column], _LINE_CELLS))))


def _group(result: Result, row: Row) -> Sentence:
    """` of group tp (ranks 0-7)`; without its members where they are unknown, or all ranks."""
    if not row["group"]:
        return EMPTY
    group = say(
        " of group {name}", name=_of(result, row, "group_name").words(code(middle(row["group_name"], _NAME_CELLS)))
    )
    every = row["world"] is not None and row["members"] == f"0-{row['world'] - 1}"
    if every or not row["members"]:
        return group
    return say("{group} ({members})", group=group, members=_ranks(result, row, "members"))


def _call(result: Result, row: Row) -> Sentence:
    """`all_reduce 1,204 of group tp (ranks 0-7)`."""
    unnamed = "a collective" if row["seq"] is None else "collective"
    name = _of(result, row, "name").words(_plain(row["name"], _NAME_CELLS)) if row["name"] else unnamed
    number = say(" {seq}", seq=_of(result, row, "seq")) if row["seq"] is not None else EMPTY
    return say("{name}{number}{group}", name=name, number=number, group=_group(result, row))


def _who_waits(result: Result, row: Row) -> Sentence:
    """`7 ranks have waited 588 s for it, at train.py:88.`; nothing where nobody waits."""
    count = row["waiting"]
    if not count or row["cause"] in ("no hang", "order of groups"):
        return EMPTY
    many = _of(result, row, "waiting").words(f"{grouped(count)} rank{'s' * (count != 1)}")
    line = _line(result, row, "waiting_line", ", at ")
    has = "has" if count == 1 else "have"
    if row["waited"] is None:
        return say("{many} wait{s} for it{line}.", many=many, s="s" * (count == 1), line=line)
    return say(
        "{many} {has} waited {time} for it{line}.", many=many, has=has, time=_of(result, row, "waited"), line=line
    )


# --- causes


def _no_hang(_: Result, row: Row) -> Sentence:
    del row
    return say("Nothing hangs: each collective is done, or ranks still moved when the records were written.")


def _missing(result: Result, row: Row) -> Sentence:
    """Nothing says where its host is: the last line that is known is said."""
    if row["damage"]:
        damage = _of(result, row, "damage").words(_plain(row["damage"], _DIFFERENCE_CELLS))
        return say(
            "{who} {be} not known to have come to {call}: {its} records are damaged ({damage}).", who=_who(result, row),
            be="is" if _is_one(row) else "are", call=_call(result, row), its="its" if _is_one(row) else "their",
            damage=damage,
        )  # fmt: skip
    came = say("{who} did not come to {call}", who=_who(result, row), call=_call(result, row))
    line = _line(result, row, before="; the last line that is known of it is ")
    return say("{came}{line}.", came=came, line=line)


def _did_not_come(at: str) -> Callable[[Result, Row], Sentence]:
    """`at` is where its host is; "": what else is known of that."""

    def said(result: Result, row: Row) -> Sentence:
        its, be = ("its host", "is") if _is_one(row) else ("their hosts", "are")
        where = say("{be} {at}", be=be, at=at)
        if not at and row["activity"]:
            activity = _of(result, row, "activity").words(_plain(row["activity"], _NAME_CELLS))
            where = say("{be} elsewhere, in {activity}", be=be, activity=activity)
        line = _line(result, row, before=" (")
        return say(
            "{who} did not come to {call}: {its} {where}{line}.",
            who=_who(result, row), call=_call(result, row), its=its,
            where=where if at or row["activity"] else say("{be} elsewhere", be=be),
            line=join([line, ")"], "") if line else EMPTY,
        )  # fmt: skip

    return said


def _skipped(result: Result, row: Row) -> Sentence:
    return say(
        "{who} left out {call}{line}, and {goes} on with what the others call later.",
        who=_who(result, row), call=_call(result, row), goes="goes" if _is_one(row) else "go",
        line=_line(result, row, before=", near "),
    )  # fmt: skip


def _values(result: Result, row: Row) -> Sentence:
    """`: [16] on ranks 0-2; [17] on rank 3`; nothing where that is not known."""
    if not row["differs"]:
        return EMPTY
    text = _plain(row["differs"], _DIFFERENCE_CELLS)
    return say(": {values}", values=_of(result, row, "differs").words(text))


def _differ(what: str) -> Callable[[Result, Row], Sentence]:
    """Ranks that meet with different things: what each has, and the line of those that differ."""

    def said(result: Result, row: Row) -> Sentence:
        alone = not row["waiting"] or row["ranks"] == row["members"]
        than = "than each other" if alone else "than the others"
        return say(
            "{who} {calls} {call} with {what} {than}{values}{line}.",
            who=_who(result, row), calls="calls" if _is_one(row) else "call", call=_call(result, row), than=than,
            what=what, values=_values(result, row), line=_line(result, row, before=", at "),
        )  # fmt: skip

    return said


def _other_collective(result: Result, row: Row) -> Sentence:
    return say(
        "{who} {calls} something else than the others where they call {call}{values}{line}.",
        who=_who(result, row), calls="calls" if _is_one(row) else "call", call=_call(result, row),
        values=_values(result, row), line=_line(result, row, before=", at "),
    )  # fmt: skip


def _other_group(result: Result, row: Row) -> Sentence:
    return say(
        "{who} {has} other members in mind than the others when they call {call}{values}.",
        who=_who(result, row), has="has" if _is_one(row) else "have", call=_call(result, row),
        values=_values(result, row),
    )  # fmt: skip


def _cycle(result: Result, row: Row) -> Sentence:
    waits = EMPTY
    if row["waits"]:
        waits = say(": {waits}", waits=_of(result, row, "waits").words(_plain(row["waits"], 2 * _DIFFERENCE_CELLS)))
    time = say(" for {time}", time=_of(result, row, "waited")) if row["waited"] is not None else EMPTY
    others = EMPTY
    if row["waiting"]:
        count = row["waiting"]
        many = _of(result, row, "waiting").words(f"{grouped(count)} rank{'s' * (count != 1)}")
        others = say("{many} wait{s} because of that.", many=many, s="s" * (count == 1))
    said = say(
        "{who} wait for each other in several groups{time}{line}{waits}.",
        who=_who(result, row), time=time, waits=waits, line=_line(result, row, before=", at "),
    )  # fmt: skip
    return join([said, others])


def _ended(result: Result, row: Row) -> Sentence:
    how = EMPTY
    if row["ended"]:
        how = say(" ({how})", how=_of(result, row, "ended").words(code(middle(row["ended"], _LINE_CELLS))))
    verb = "ended" if row["ended"] else "left no records, and may have ended"
    call = say(" before {call}", call=_call(result, row)) if row["name"] or row["group"] else EMPTY
    last = "its last line" if _is_one(row) else "their last line"
    said = say(
        "{who} {verb}{how}{call}{line}.", who=_who(result, row), verb=verb, how=how, call=call,
        line=_line(result, row, before=f"; {last} is "),
    )  # fmt: skip
    unknown = "" if call else "What the ranks called last is unknown: none has left a dump of its collectives."
    return join([said, unknown])


def _unmatched(verb: str, missing: str) -> Callable[[Result, Row], Sentence]:
    def said(result: Result, row: Row) -> Sentence:
        return say(
            "{who} {verb}{s}{line}, and nobody {missing}: {call} has no other end.",
            who=_who(result, row), verb=verb, s="s" * _is_one(row), missing=missing, call=_call(result, row),
            line=_line(result, row),
        )  # fmt: skip

    return said


def _device(result: Result, row: Row) -> Sentence:
    on = say(" on {ranks}", ranks=_ranks(result, row)) if row["ranks"] else EMPTY
    return say(
        "All ranks have come to {call} with the same, and it does not end{on}: a device or the network.",
        call=_call(result, row), on=on,
    )  # fmt: skip


def _root(result: Result, row: Row) -> Sentence:
    if row["ranks"]:
        return _differ("another root")(result, row)
    return say(
        "All ranks have come to {call}, and it does not end: they may not agree on its root, which no record says, or"
        " it is a device or the network.",
        call=_call(result, row),
    )  # fmt: skip


def _slow(result: Result, row: Row) -> Sentence:
    return say(
        "Nothing hangs: {who} {comes} late to {call}{line}, but still {moves}.",
        who=_ranks(result, row), comes="comes" if _is_one(row) else "come", call=_call(result, row),
        line=_line(result, row, before=", at "), moves="moves" if _is_one(row) else "move",
    )  # fmt: skip


def _unknown(result: Result, row: Row) -> Sentence:
    waits = say(": ranks wait in {call}", call=_call(result, row)) if row["group"] else EMPTY
    return say("Why the job does not go on cannot be told from its records{waits}.", waits=waits)


_SAID: Final[dict[Cause, Callable[[Result, Row], Sentence]]] = {
    "no hang": _no_hang,
    "skipped call": _skipped,
    "missing rank": _missing,
    "different collective": _other_collective,
    "different sizes": _differ("other sizes"),
    "different types": _differ("other types"),
    "different root": _root,
    "different group": _other_group,
    "order of groups": _cycle,
    "rank ended": _ended,
    "host stalled": _did_not_come(""),
    "data loading": _did_not_come("in data loading"),
    "checkpoint": _did_not_come("at a checkpoint"),
    "unmatched send": _unmatched("send", "receives"),
    "unmatched receive": _unmatched("receive", "sends"),
    "device or network": _device,
    "slow rank": _slow,
    "unknown": _unknown,
}
"""What is said of each cause."""
