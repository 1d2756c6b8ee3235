import { along } from "../../src/draw/timeline/engine/places";
import { expect, test } from "vitest";
import { arrangedParams, keyOf } from "../../src/draw/timeline/engine/arrange";
import {
  arrangementOf,
  markOf,
  measuresOf,
  ownTime,
  spanOf,
  startOf,
  startView,
  textOf,
} from "../../src/draw/timeline/engine/places";
import { arrowEnd, eventDetails, timelineLanes } from "./answers";

const lanes = timelineLanes({
  ranks: [
    {
      rank: 3,
      offset: 0,
      steps: Array.from({ length: 5 }, (_, at) => ({ step: at + 1, start: at * 100, end: at * 100 + 90 })),
      groups: [
        { id: "p", title: "profiler", kind: "host", collapsed: true, lanes: [{ id: "9o", title: "x", depth: 4 }] },
        { id: "h", title: "python", kind: "host", lanes: [{ id: "0", title: "main thread", depth: 4 }] },
      ],
    },
    { rank: 4, offset: -20, groups: [] },
  ],
  start: -20,
  end: 500,
});

test("spans go to text and back", () => {
  for (const span of [
    { start: 0, end: 5 },
    { start: -20, end: -3 },
    { start: -1, end: 1e15 },
  ])
    expect(spanOf(textOf(span))).toEqual(span);
  for (const text of [undefined, "", "5", "9-3", "a-b", "1-1", "1-2-3", "0x1-9", "<b>-2"])
    expect(spanOf(text)).toBeNull();
});

test("the address says first what is shown, then the header, then the run", () => {
  expect(startView(lanes, { in: "1-9" }, "20-40", "2")).toEqual({ start: 1, end: 9 });
  expect(startView(lanes, { view: "1-9" }, undefined, undefined)).toEqual({ start: 1, end: 9 });
  const range = startView(lanes, {}, "100-200", "5");
  expect([range?.start, range?.end].map((each) => Math.round((each ?? 0) / 10))).toEqual([9, 22]);
  const steps = startView(lanes, {}, undefined, "2-3");
  expect(steps && steps.start < 100 && steps.start > 80 && steps.end > 290 && steps.end < 310).toBe(true);
  expect(startView(lanes, {}, undefined, "steady")).toBeNull();
  expect(startView(lanes, {}, undefined, undefined)).toBeNull();
});

test("what the server proposes is shown at first", () => {
  const view = startView({ ...lanes, home: { start: 100, end: 300 } }, {}, undefined, undefined);
  expect([view?.start, view?.end]).toEqual([94, 306]);
});

test("what is folded, unfolded and pinned goes into the address and comes back", () => {
  const first = startOf(lanes);
  expect(Object.values(arrangedParams(first, first)).every((each) => each === null)).toBe(true);
  const folded = new Set([...first.folded, keyOf.group(3, "h")]);
  folded.delete(keyOf.rank(4));
  const how = { ...first, folded, full: new Set([keyOf.lane(3, "0")]), pinned: new Set([keyOf.lane(3, "9o")]) };
  const params = arrangedParams(how, first);
  expect(params).toEqual({ ...arrangedParams(first, first), fold: "g3/h r4", rows: "l3/0", pin: "l3/9o" });
  expect(arrangementOf(lanes, params as Record<string, string>)).toEqual(how);
  expect(arrangementOf(lanes, {})).toEqual(first);
  expect(measuresOf("1-5,x,7-9")).toEqual([
    { start: 1, end: 5 },
    { start: 7, end: 9 },
  ]);
});

test("ranks have clocks of their own", () => {
  expect(ownTime(lanes, 4, { start: 0, end: 80 })).toEqual({ start: 20, end: 100 });
  expect(ownTime(lanes, 3, { start: -20, end: 80 })).toEqual({ start: 0, end: 80 });
  const facts = eventDetails({ row: 7, name: "x", start: 50, end: 60, duration: 10 });
  expect(markOf(lanes, { rank: 4, row: 7 }, facts)).toMatchObject({ start: 30, end: 40, rank: 4, lane: "0" });
});

test("what the server folds is folded", () => {
  const [own] = lanes.ranks;
  const sole = { ...lanes, ranks: own ? [own] : [] };
  expect([...startOf(sole).folded]).toEqual([keyOf.group(3, "p"), keyOf.lane(3, "9o")]);
});

test("of several ranks each is folded to its line", () => {
  expect([...startOf(lanes).folded].filter((key) => key.startsWith("r"))).toEqual(["r3", "r4"]);
});

test("an arrow is followed to what it leads to, and back to the cause", () => {
  const facts = eventDetails({ row: 1 });
  const wait = { start: arrowEnd(1), end: arrowEnd(7), kind: "wait" } as const;
  const launch = { start: arrowEnd(3), end: arrowEnd(1), kind: "launch" } as const;
  expect(along({ ...facts, launched: [5, 6], backward: 9, arrows: [wait] }, "next")).toBe(5);
  expect(along({ ...facts, launched: [], arrows: [launch, wait] }, "next")).toBe(7);
  expect(along({ ...facts, backward: 9 }, "next")).toBe(9);
  expect(along({ ...facts, launched_by: null, arrows: [launch, wait] }, "previous")).toBe(3);
  expect(along({ ...facts, forward: 0 }, "previous")).toBe(0);
  expect(along(facts, "previous")).toBeNull();
});
