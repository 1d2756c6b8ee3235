/** Notes on the timeline: as the server has them, as the address has them, and as they are drawn. */

import { OWNERS } from "../../../base/kinds";
import type { TimelineLanes, TimelineNote } from "../../../api/answers";
import type { Flag } from "../engine/types";

/** In the order of `OWNERS`; as the server has them. */
export const COLOURS = ["blue", "orange", "green", "purple", "red", "teal"] as const;
export type NoteColour = TimelineNote["colour"];

const MOST_IN_LINK = 100;
const LONGEST = 2000;

export const colourOf = (colour: NoteColour, dark: boolean): string =>
  OWNERS[COLOURS.indexOf(colour)]?.[dark ? "dark" : "light"] ?? "#888888";

export const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Notes as the address has them: rank, start, end, colour, text, event. What is none is left out. */
export function notesOf(text: string | undefined): TimelineNote[] {
  let value: unknown;
  try {
    value = JSON.parse(text || "[]");
  } catch {
    return [];
  }
  if (!Array.isArray(value)) return [];
  return value.slice(0, MOST_IN_LINK).flatMap((each: unknown, at): TimelineNote[] => {
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
export const textOfNotes = (notes: readonly TimelineNote[]): string =>
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
export function flagsOf(notes: readonly TimelineNote[], lanes: TimelineLanes, current: string, dark: boolean): Flag[] {
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
