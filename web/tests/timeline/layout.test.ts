import { expect, test } from "vitest";
import { keyOf, layout, PLAIN, rowAt, spotAt, unfolded } from "../../src/draw/timeline/layout";
import type { Lanes, RankLanes } from "../../src/draw/timeline/types";

const rank = (number: number): RankLanes => ({
  rank: number,
  offset: number * 1000,
  steps: [{ step: 1, start: 0, end: 10 }],
  groups: [
    { id: "steps", title: "steps", kind: "steps", lanes: [] },
    {
      id: "c",
      title: "counters",
      kind: "counter",
      lanes: ["busy.0", "busy.1", "queue.0"].map((id) => ({ id, title: id, depth: 1 })),
    },
    {
      id: "h",
      title: "python",
      kind: "host",
      lanes: [
        { id: "0", title: "main thread", depth: 60, outer: 20 },
        { id: "1", title: "autograd", depth: 3 },
      ],
    },
    { id: "d", title: "GPU 0", kind: "device", lanes: [{ id: "7w", title: "stream 7", depth: 1 }] },
  ],
});
const one: Lanes = { ranks: [rank(0)], start: 0, end: 100 };
const two: Lanes = { ranks: [rank(0), rank(1)], start: 0, end: 100 };
const shownLanes = (of: ReturnType<typeof layout>) =>
  of.scrolled.filter(({ what }) => what === "lane").map(({ lane }) => lane);

test("the ruler of the only rank stays in sight", () => {
  expect(layout(one, PLAIN, 1200).pinned.map(({ lane }) => lane)).toEqual(["steps"]);
  expect(layout(two, PLAIN, 1200).pinned).toEqual([]);
});

test("lanes follow one another without a gap", () => {
  let top = 0;
  const at = layout(two, PLAIN, 1200);
  for (const item of at.scrolled) {
    expect(item.top).toBe(top);
    top += item.height;
  }
  expect(at.height).toBe(top);
});

test("a stream without siblings is named with its device", () => {
  expect(layout(one, PLAIN, 1200).scrolled.at(-1)?.title).toBe("GPU 0 · stream 7");
});

test("a folded group hides its lanes, but of counters the first kind stays", () => {
  const folded = new Set([keyOf.group(0, "h"), keyOf.group(0, "c")]);
  expect(shownLanes(layout(one, { ...PLAIN, folded }, 1200))).toEqual(["busy.0", "busy.1", "7w"]);
});

test("a folded rank shows what is pinned", () => {
  const how = { ...PLAIN, folded: new Set([keyOf.rank(1)]), pinned: new Set([keyOf.lane(1, "7w")]) };
  const at = layout(two, how, 1200);
  expect(at.scrolled.filter((item) => item.rank === 1).map(({ what }) => what)).toEqual(["rank"]);
  expect(at.pinned.map(({ title }) => title)).toEqual(["GPU 0 · stream 7 · rank 1"]);
});

test("outer frames and deep rows wait until they are asked for", () => {
  const find = (at: ReturnType<typeof layout>) => at.scrolled.find(({ lane }) => lane === "0");
  const before = find(layout(one, PLAIN, 1200));
  expect([before?.skip, before?.rows, before?.hidden]).toEqual([20, 12, 48]);
  const after = find(layout(one, { ...PLAIN, full: new Set([keyOf.lane(0, "0")]) }, 1200));
  expect([after?.skip, after?.rows, after?.hidden]).toEqual([0, 60, 0]);
});

test("what is drawn at a row is found there, scrolled or not", () => {
  const at = layout(one, PLAIN, 1200);
  for (const scroll of [0, 33]) {
    for (const [lane, depth] of [
      ["0", 25],
      ["1", 2],
      ["7w", 0],
    ] as const) {
      const row = rowAt(at, 0, lane, depth, scroll);
      const spot = row && spotAt(at, row.top + row.bar / 2, scroll);
      expect([spot?.item.lane, spot?.depth]).toEqual([lane, depth]);
    }
  }
  expect(rowAt(at, 3, "0", 0, 0)).toBeNull();
  expect(spotAt(at, 1e6, 0)).toBeNull();
});

test("a narrow page has labels above its lanes", () => {
  const at = layout(one, PLAIN, 390);
  expect(at.gutter).toBe(0);
  expect(at.scrolled.filter(({ what }) => what === "lane").every(({ inset }) => inset > 0)).toBe(true);
});

test("deep lanes take the room that is free, and no more", () => {
  const least = layout(one, PLAIN, 1200);
  const all = least.pinnedHeight + least.height;
  const deep = (room: number) => layout(one, PLAIN, 1200, room).scrolled.find(({ lane }) => lane === "0");
  expect(deep(all)?.rows).toBe(12);
  expect(deep(all + 100)?.rows).toBe(18);
  expect([deep(1e5)?.rows, deep(1e5)?.hidden]).toEqual([40, 20]);
  for (const room of [all + 1, all + 200, all + 333]) {
    const at = layout(one, PLAIN, 1200, room);
    expect(at.pinnedHeight + at.height).toBeLessThanOrEqual(room);
  }
});

test("a selected mark is unfolded, wherever it is", () => {
  const shown = (how: typeof PLAIN, depth: number, lane = "0") => {
    const next = unfolded(two, how, layout(two, how, 1200), { rank: 1, lane, depth });
    const item = layout(two, next, 1200).scrolled.find((one) => one.rank === 1 && one.lane === lane);
    return [next === how, !!item && depth >= item.skip && depth < item.skip + item.rows];
  };
  expect(shown(PLAIN, 25)).toEqual([true, true]);
  for (const depth of [0, 59]) expect(shown(PLAIN, depth)).toEqual([false, true]);
  const folded = new Set([keyOf.rank(1), keyOf.group(1, "h"), keyOf.lane(1, "0")]);
  expect(shown({ ...PLAIN, folded }, 30)).toEqual([false, true]);
  expect(shown(PLAIN, 0, "none")).toEqual([true, false]);
});
