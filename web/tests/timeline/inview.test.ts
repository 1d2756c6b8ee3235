import { expect, test } from "vitest";
import { inView } from "../../src/draw/timeline/engine/inview";
import { PLAIN } from "../../src/draw/timeline/engine/arrange";
import { layout } from "../../src/draw/timeline/engine/layout";
import { Store } from "../../src/draw/timeline/engine/store";
import { decode, UNITS } from "../../src/draw/timeline/engine/tile";
import type { Scene } from "../../src/draw/timeline/engine/types";
import { type DrawnMark, packed } from "./drawn";
import { timelineLanes } from "./answers";

/** Frames around a loop of two steps; a depth that only a call before the loop uses; and work inside. */
const MARKS: DrawnMark[] = [
  { lane: "0", depth: 0, start: 0, end: 1024, row: 1 },
  { lane: "0", depth: 1, start: 0, end: 3, row: 2 },
  { lane: "0", depth: 2, start: 100, end: 1000, row: 3 },
  { lane: "0", depth: 3, start: 100, end: 500, row: 4 },
  { lane: "0", depth: 3, start: 500, end: 1000, row: 5 },
  { lane: "0", depth: 4, start: 600, end: 601, row: 6 },
];

const lanes = timelineLanes({
  ranks: [
    {
      rank: 0,
      offset: 0,
      groups: [
        {
          id: "h",
          title: "python",
          kind: "host",
          lanes: [
            { id: "0", title: "main thread", depth: 5 },
            { id: "1", title: "idle", depth: 2 },
          ],
        },
      ],
    },
  ],
  start: 0,
  end: 2 * UNITS,
});

function seen(start: number, end: number) {
  const store = new Store(
    () => Promise.reject(new Error()),
    () => undefined,
  );
  store.keep("0/marks/0/0", 0, decode(packed(0, 0, MARKS)));
  store.keep("0/marks/0/1", 0, decode(packed(0, 1, [])));
  const scene = { view: { start, end }, width: 1184, layout: layout(lanes, PLAIN, 1184) } as unknown as Scene;
  return inView(scene, lanes, store).map(({ lane, depths, branch }) => [lane, depths, branch]);
}

test("the depths in view, and where calls follow one another", () => {
  expect(seen(0, 1024)[0]).toEqual(["0", [0, 1, 2, 3, 4], 3]);
  expect(seen(50, 1010)[0]).toEqual(["0", [0, 2, 3, 4], 3]);
});

test("one call alone does not branch, and a thread may have nothing", () => {
  expect(seen(110, 400)).toEqual([
    ["0", [0, 2, 3], -1],
    ["1", [], -1],
  ]);
});
