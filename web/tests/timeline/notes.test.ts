import { describe, expect, it } from "vitest";
import { flagAt, flagBoxes } from "../../src/draw/timeline/engine/flags";
import { layout } from "../../src/draw/timeline/engine/layout";
import { PLAIN } from "../../src/draw/timeline/engine/arrange";
import { UNKNOWN } from "../../src/draw/timeline/engine/layout";
import { flagsOf, notesOf, textOfNotes } from "../../src/draw/timeline/instruments/notes";
import type { TimelineNote } from "../../src/api/answers";
import { timelineLanes } from "./answers";

const note = (change: Partial<TimelineNote>): TimelineNote => ({
  id: "link0",
  rank: 0,
  start: 10,
  end: 20,
  text: "a",
  colour: "red",
  row: null,
  revision: 0,
  ...change,
});

const lanes = timelineLanes({
  start: 0,
  end: 1000,
  ranks: [
    { rank: 0, offset: 0, groups: [] },
    { rank: 1, offset: 100, groups: [] },
  ],
});

describe("notes in the address", () => {
  it("are read as they were written", () => {
    const all = [note({}), note({ id: "link1", rank: 3, start: -5, end: -5, text: '<b>"é\n', row: 7, colour: "teal" })];
    expect(notesOf(textOfNotes(all))).toEqual(all);
  });

  it("are left out where they are none", () => {
    for (const text of [undefined, "", "{", "{}", "null", "[1]", "[[0,1]]", '[[0,2,1,0,"a"]]', '[[0,1,2,9,"a"]]'])
      expect(notesOf(text)).toEqual([]);
    for (const odd of [
      [-1, 0, 1, 0, "a"],
      [0, 1e99, 1e99, 0, "a"],
      [0, 0, 1, 0, " "],
      [0, 0, 1, 0, "a".repeat(9999)],
    ])
      expect(notesOf(JSON.stringify([odd]))).toEqual([]);
    expect(notesOf(JSON.stringify(Array(500).fill([0, 0, 1, 0, "a"])))).toHaveLength(100);
  });
});

describe("flags", () => {
  it("stand in the picture's time, and only of the ranks that are drawn", () => {
    const all = [note({ id: "a", rank: 1 }), note({ id: "b", rank: 2 }), note({ id: "c", start: 5, end: 5 })];
    expect(flagsOf(all, lanes, "a", false).map(({ id, start, current }) => [id, start, current])).toEqual([
      ["c", 5, false],
      ["a", 110, true],
    ]);
  });

  it("have tags that do not cover one another, and answer clicks", () => {
    const flags = flagsOf(
      [
        note({ id: "a", start: 100, end: 100, text: "a long text that would be wide" }),
        note({ id: "b", start: 150, end: 400 }),
      ],
      lanes,
      "",
      false,
    );
    const view = { start: 0, end: 1000 };
    const boxes = flagBoxes(flags, view, 0, 1000);
    expect(boxes.map(({ x, width }) => [x, width])).toEqual([
      [100, 48],
      [150, 18.4],
    ]);
    const at = layout(lanes, PLAIN, 1000, 0, { ...UNKNOWN, notes: true });
    const y = at.notesTop + 5;
    const of = (x: number) => flagAt(flags, { start: -184, end: 816 }, { ...at, gutter: 0 }, 1000, x, y)?.id;
    expect([of(290), of(350), of(580), of(650), flagAt(flags, view, at, 1000, 290, y + 40)]).toEqual([
      "a",
      "b",
      "b",
      undefined,
      null,
    ]);
  });
});
