import { expect, test } from "vitest";
import { keyOf, PLAIN } from "../../src/draw/timeline/engine/arrange";
import { drawnDepths, layout, lineOf, rowAt, spotAt, unfolded } from "../../src/draw/timeline/engine/layout";
import type { RankLanes } from "../../src/api/answers";
import { group, rankLanes, timelineLanes } from "./answers";

const rank = (number: number): RankLanes =>
  rankLanes({
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
const one = timelineLanes({ ranks: [rank(0)], start: 0, end: 100 });
const two = timelineLanes({ ranks: [rank(0), rank(1)], start: 0, end: 100 });
const shownLanes = (of: ReturnType<typeof layout>) =>
  of.scrolled.filter(({ what }) => what === "lane").map(({ lane }) => lane);

test("the ruler of the first rank stays in sight", () => {
  expect(layout(one, PLAIN, 1200).pinned.map(({ lane }) => lane)).toEqual(["steps"]);
  expect(layout(two, PLAIN, 1200).pinned.map(({ title }) => title)).toEqual(["steps · rank 0"]);
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
  expect(at.pinned.map(({ title }) => title)).toEqual(["steps · rank 0", "GPU 0 · stream 7 · rank 1"]);
});

test("outer frames and deep rows wait until they are asked for", () => {
  const find = (at: ReturnType<typeof layout>) => at.scrolled.find(({ lane }) => lane === "0");
  const before = find(layout(one, PLAIN, 1200));
  expect([before?.depths[0], before?.rows, before?.hidden]).toEqual([20, 12, 48]);
  const after = find(layout(one, { ...PLAIN, full: new Set([keyOf.lane(0, "0")]) }, 1200));
  expect([after?.depths[0], after?.rows, after?.hidden]).toEqual([0, 60, 0]);
});

test("rows that hold nothing in view are squeezed out, and those above what branches wait", () => {
  const used = new Map([[keyOf.lane(0, "0"), { depths: [3, 9, 10, 30], from: 9 }]]);
  const find = (how: typeof PLAIN) =>
    layout(one, how, 1200, 0, { used, ranks: new Map() }).scrolled.find(({ lane }) => lane === "0");
  const opened = find(PLAIN);
  expect([opened?.depths, opened?.rows, opened?.hidden]).toEqual([[9, 10, 30], 3, 1]);
  const full = find({ ...PLAIN, full: new Set([keyOf.lane(0, "0")]) });
  expect([full?.depths, full?.hidden]).toEqual([[3, 9, 10, 30], 0]);
  const at = layout(one, PLAIN, 1200, 0, { used, ranks: new Map() });
  const row = rowAt(at, 0, "0", 30, 0);
  expect(row && spotAt(at, row.top + row.bar / 2, 0)?.depth).toBe(30);
});

test("a thread with nothing in view is a thin line", () => {
  const used = new Map([[keyOf.lane(0, "0"), { depths: [], from: 0 }]]);
  const item = layout(one, PLAIN, 1200, 0, { used, ranks: new Map() }).scrolled.find(({ lane }) => lane === "0");
  expect([item?.rows, item?.hidden, item && item.height < 20]).toEqual([1, 0, true]);
});

test("a folded rank is one line of all that its devices do, and what is said of it", () => {
  const folded = new Set([keyOf.rank(0), keyOf.rank(1)]);
  const at = layout(two, { ...PLAIN, folded }, 1200, 0, { used: new Map(), ranks: new Map([[1, "straggler"]]) });
  expect(at.scrolled.map(({ title, note, line }) => [title, note, line?.lanes])).toEqual([
    ["Rank 0", "", ["7w"]],
    ["Rank 1", "straggler", ["7w"]],
  ]);
  expect(at.height).toBeLessThan(70);
});

test("a job without devices has its main thread in the line, beneath the steps", () => {
  const host = rank(0).groups.filter(({ kind }) => kind !== "device");
  expect(lineOf({ ...rank(0), groups: host })).toMatchObject({ lanes: [{ id: "0" }], depth: 21 });
});

test("counters that are folded are unfolded by the first of them", () => {
  const folded = new Set([keyOf.group(0, "c")]);
  const [first, second] = layout(one, { ...PLAIN, folded }, 1200).scrolled;
  expect([first?.toggles, first?.note, second?.toggles]).toEqual([
    keyOf.group(0, "c"),
    "1 more",
    keyOf.lane(0, "busy.1"),
  ]);
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

test("a pinned stream says whose it is, whatever its group says", () => {
  const streams = ["1w", "2w", "3w", "4w", "5w"].map((id) => ({ id, title: `stream ${id}`, depth: 1 }));
  const own = { ...rank(0), groups: [group({ id: "d", title: "GPU 2", kind: "device", lanes: streams })] };
  const how = { ...PLAIN, pinned: new Set([keyOf.lane(0, "3w")]) };
  const at = layout({ ...one, ranks: [own] }, how, 1200);
  expect(at.pinned.at(-1)?.title).toBe("GPU 2 · stream 3w");
  expect(at.scrolled.map(({ title }) => title).slice(0, 2)).toEqual(["GPU 2 · 5", "stream 1w"]);
});

test("a selected mark is unfolded, wherever it is", () => {
  const shown = (how: typeof PLAIN, depth: number, lane = "0") => {
    const next = unfolded(two, how, layout(two, how, 1200), { rank: 1, lane, depth });
    const item = layout(two, next, 1200).scrolled.find((one) => one.rank === 1 && one.lane === lane);
    return [next === how, !!item && drawnDepths(item).includes(depth)];
  };
  expect(shown(PLAIN, 25)).toEqual([true, true]);
  for (const depth of [0, 59]) expect(shown(PLAIN, depth)).toEqual([false, true]);
  const folded = new Set([keyOf.rank(1), keyOf.group(1, "h"), keyOf.lane(1, "0")]);
  expect(shown({ ...PLAIN, folded }, 30)).toEqual([false, true]);
  expect(shown(PLAIN, 0, "none")).toEqual([true, false]);
});

const replaying = timelineLanes({
  ranks: [
    {
      rank: 0,
      offset: 0,
      groups: [
        { id: "d", title: "GPU 0", kind: "device", lanes: [{ id: "7w", title: "stream 7", depth: 6, slices: 2 }] },
      ],
    },
  ],
  start: 0,
  end: 100,
});

test("a folded stream with replays is one row of slices, as high as work", () => {
  const key = keyOf.lane(0, "7w");
  const [item] = layout(replaying, { ...PLAIN, folded: new Set([key]) }, 1200).scrolled;
  expect(item && drawnDepths(item)).toEqual([2]);
  expect(item?.bar).toBe(20);
  expect(item?.foldable).toBe(true);
});

test("an open stream has its replays and what was captured in them above the work", () => {
  const at = layout(replaying, PLAIN, 1200);
  const [item] = at.scrolled;
  expect(item && drawnDepths(item)).toEqual([3, 4, 5, 0, 1]);
  expect(rowAt(at, 0, "7w", 0, 0)?.top).toBe(at.scrollTop + 3 * (item?.pitch ?? 0));
  expect(spotAt(at, at.scrollTop + 3 * (item?.pitch ?? 0) + 5, 0)?.depth).toBe(0);
});

test("rows of replays that hold nothing in view take no room, and work in a folded one opens it", () => {
  const key = keyOf.lane(0, "7w");
  const known = { used: new Map([[key, { depths: [0, 2, 3], from: 0 }]]), ranks: new Map() };
  const [item] = layout(replaying, PLAIN, 1200, 0, known).scrolled;
  expect(item && drawnDepths(item)).toEqual([3, 0]);
  const idle = { used: new Map([[key, { depths: [], from: 0 }]]), ranks: new Map() };
  expect(layout(replaying, PLAIN, 1200, 0, idle).scrolled[0]?.rows).toBe(1);
  const folded = { ...PLAIN, folded: new Set([key]) };
  const at = layout(replaying, folded, 1200);
  expect(unfolded(replaying, folded, at, { rank: 0, lane: "7w", depth: 2 })).toBe(folded);
  expect(unfolded(replaying, folded, at, { rank: 0, lane: "7w", depth: 0 }).folded.has(key)).toBe(false);
});
