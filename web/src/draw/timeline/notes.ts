/** Notes on the timeline: those that the server keeps with the run, and those that a link brings. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { told, useAnswer } from "../../api/ask";
import { runPath } from "../../api/client";
import { OWNERS } from "../../base/kinds";
import type { ViewProps } from "../../base/props";
import type { Lanes, Span } from "./types";

/** In the order of `OWNERS`; as the server has them. */
export const COLOURS = ["blue", "orange", "green", "purple", "red", "teal"] as const;
export type NoteColour = (typeof COLOURS)[number];

export interface Note extends Span {
  readonly id: string;
  readonly rank: number;
  readonly text: string;
  readonly colour: NoteColour;
  readonly row: number | null;
  /** 0: of a link, or not kept yet. */
  readonly revision: number;
}

/** A note as it is drawn: in the time of the picture. */
export interface Flag extends Span {
  readonly id: string;
  readonly text: string;
  readonly colour: string;
  readonly current: boolean;
}

export interface Kept {
  notes: Note[];
  problem: string;
  where: string;
}

export interface Notes {
  readonly all: readonly Note[];
  readonly problem: string;
  /** The file that they are kept in; "" where they are kept in the address alone. */
  readonly where: string;
  readonly inLink: (note: Note) => boolean;
  readonly save: (note: Note) => Promise<void>;
  readonly remove: (note: Note) => Promise<void>;
}

const MOST_IN_LINK = 100;
const LONGEST = 2000;

export const colourOf = (colour: NoteColour, dark: boolean): string =>
  OWNERS[COLOURS.indexOf(colour)]?.[dark ? "dark" : "light"] ?? "#888888";

export const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Notes as the address has them: rank, start, end, colour, text, event. What is none is left out. */
export function notesOf(text: string | undefined): Note[] {
  let value: unknown;
  try {
    value = JSON.parse(text || "[]");
  } catch {
    return [];
  }
  if (!Array.isArray(value)) return [];
  return value.slice(0, MOST_IN_LINK).flatMap((each: unknown, at): Note[] => {
    if (!Array.isArray(each)) return [];
    const [rank, start, end, place, words, row] = each as unknown[];
    const times = [rank, start, end].every((number) => Number.isSafeInteger(number));
    const colour = COLOURS[Number(place)];
    if (!times || !colour || typeof words !== "string" || !words.trim() || words.length > LONGEST) return [];
    if (Number(end) < Number(start) || Number(rank) < 0) return [];
    return [
      {
        id: `link${at}`,
        rank: Number(rank),
        start: Number(start),
        end: Number(end),
        colour,
        text: words,
        row: Number.isSafeInteger(row) ? Number(row) : null,
        revision: 0,
      },
    ];
  });
}

/** The inverse of `notesOf`. */
export const textOfNotes = (notes: readonly Note[]): string =>
  JSON.stringify(
    notes.map(({ rank, start, end, colour, text, row }) => [
      rank,
      start,
      end,
      COLOURS.indexOf(colour),
      text,
      ...(row == null ? [] : [row]),
    ]),
  );

/** The notes in the picture's time, of the ranks that are drawn, by start. */
export function flagsOf(notes: readonly Note[], lanes: Lanes, current: string, dark: boolean): Flag[] {
  const offsets = new Map(lanes.ranks.map(({ rank, offset }) => [rank, offset]));
  return notes
    .flatMap(({ id, rank, start, end, text, colour }) => {
      const offset = offsets.get(rank);
      const ink = colourOf(colour, dark);
      return offset === undefined
        ? []
        : [{ id, text, colour: ink, current: id === current, start: start + offset, end: end + offset }];
    })
    .sort((one, other) => one.start - other.start);
}

export function useNotes({ api, run, params, go }: Pick<ViewProps, "api" | "run" | "params" | "go">): Notes {
  const path = runPath(run, "notes");
  const asked = useAnswer<Kept>(path);
  const [changed, setChanged] = useState<Kept | null>(null);
  const inLink = useMemo(() => notesOf(params["notes"]), [params["notes"]]);
  useEffect(() => setChanged(null), [asked.data]);
  useEffect(() => {
    // Another window may have changed them.
    addEventListener("focus", asked.again);
    return () => removeEventListener("focus", asked.again);
  }, [path]);
  const kept = changed ?? asked.data ?? null;
  const all = useMemo(
    () => [...(kept?.notes ?? []), ...inLink].sort((one, other) => one.start - other.start),
    [kept, inLink],
  );
  const write = (notes: readonly Note[]) =>
    go({ params: { notes: notes.length ? textOfNotes(notes) : null } }, { replace: true });
  const post = async (body: object) => {
    try {
      setChanged(await api.post<Kept>(path, {}, body));
    } catch (error) {
      asked.again();
      throw told(error);
    }
  };
  const isInLink = (note: Note) => inLink.some(({ id }) => id === note.id);
  const others = (note: Note) => inLink.filter(({ id }) => id !== note.id);
  return {
    all,
    problem: kept?.problem ?? (asked.error && !api.embedded ? asked.error.message : ""),
    where: api.embedded ? "" : (kept?.where ?? ""),
    inLink: isInLink,
    save: async (note) => {
      if (api.embedded) return write([...others(note), note]);
      await post({ note: isInLink(note) ? { ...note, id: newId() } : note });
      if (isInLink(note)) write(others(note));
    },
    remove: async (note) => {
      if (isInLink(note)) write(others(note));
      else await post({ delete: note.id, revision: note.revision });
    },
  };
}
