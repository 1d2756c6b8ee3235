"""One list of events parsed in pieces, on several threads; nothing is believed that was not proven.

A piece counts only if the one before it ended exactly where it begins, between two events; so, by induction from the
`[`, each piece that counts was parsed from a place between two events. See docs/decisions/0005-pieces-of-one-file.md.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from kinetoscope.readers.json import tokenizer as tk
from kinetoscope.readers.json.columns import Chunk, EventColumns, Tokenizer
from kinetoscope.readers.json.window import TextWindow


@dataclass(frozen=True, slots=True)
class PieceOutcome:
    """How parsing a piece, or as many pieces as there were, ended.

    Attributes:
        status: MORE, DONE or BROKEN.
        expect: what may come next.
        odd_commas: commas missing or doubled on the way.
        position: where it ended; chunks: the rows. Of one piece only.
    """

    status: int
    expect: int
    odd_commas: int
    position: int = 0
    chunks: tuple[Chunk, ...] = ()


@dataclass(frozen=True, slots=True)
class _Piece:
    text: bytearray
    limit: int
    place: int
    tokenizer: int
    future: Future[PieceOutcome]


def read_pieces(window: TextWindow, team: list[Tokenizer], columns: EventColumns, expect: int) -> PieceOutcome:
    """Read as far as pieces go: to the end of the list, or to where one tokenizer must go on alone from the window.

    Pieces go to the tokenizers in turn, not to whichever is free, so that codes do not depend on timing.
    """
    pending: deque[_Piece] = deque()
    odd_commas = 0
    with ExitStack() as stack:
        pools = [stack.enter_context(ThreadPoolExecutor(1, f"kinetoscope-parse-{k}")) for k in range(len(team))]
        pieces = window.pieces(window.mark())
        number = 0
        more = True
        while more or pending:
            piece = next(pieces, None) if more else None
            more = piece is not None
            if piece is not None:
                k = number % len(team)
                first = tk.ELEMENT if number else expect
                future = pools[k].submit(_parse, team[k], piece[0], piece[1], first)
                pending.append(_Piece(*piece, k, future))
                number += 1
            if pending and (not more or len(pending) > len(team)):
                outcome = pending[0].future.result()
                for chunk in outcome.chunks:
                    columns.append(chunk, pending[0].tokenizer)
                odd_commas += outcome.odd_commas
                expect = outcome.expect
                if (outcome.status, outcome.position, expect) != (tk.MORE, pending[0].limit, tk.ELEMENT):
                    _give_back(window, pending, outcome.position)
                    return PieceOutcome(outcome.status, expect, odd_commas)
                pending.popleft()
    return PieceOutcome(tk.MORE, expect, odd_commas)


def _parse(tokenizer: Tokenizer, text: bytearray, limit: int, expect: int) -> PieceOutcome:
    before = tokenizer.odd_commas
    chunks: list[Chunk] = []

    def keep(chunk: Chunk) -> None:
        chunks.append(chunk.copy())

    status, position, expect = tokenizer.feed(np.frombuffer(text, np.uint8), limit, 0, expect, keep)
    tokenizer.flush(keep)
    return PieceOutcome(status, expect, tokenizer.odd_commas - before, position, tuple(chunks))


def _give_back(window: TextWindow, pending: deque[_Piece], position: int) -> None:
    """Put back the text of the first piece from `position` on, and of those after it; what was made of them is lost."""
    for piece in pending:
        piece.future.result()
    begins = [position, *[0] * (len(pending) - 1)]
    texts = [memoryview(piece.text)[begin : piece.limit] for piece, begin in zip(pending, begins, strict=True)]
    window.unread(texts, pending[0].place + position)
