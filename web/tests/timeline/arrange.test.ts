import { expect, test } from "vitest";
import {
  type Arrangement,
  arrangedParams,
  arrangementFrom,
  dropped,
  flipped,
  keyOf,
  nudged,
  PLAIN,
  resized,
  shownLanes,
} from "../../src/draw/timeline/engine/arrange";
import { layout, stripsOf, unfolded } from "../../src/draw/timeline/engine/layout";
import type { RankLanes } from "../../src/api/answers";
import type { Item } from "../../src/draw/timeline/engine/types";
import { rankLanes, timelineLanes } from "./answers";

const rank = (number: number): RankLanes =>
  rankLanes({
    rank: number,
    offset: 0,
    steps: [{ step: 1, start: 0, end: 10 }],
    groups: [
      { id: "steps", title: "steps", kind: "steps", lanes: [] },
      {
        id: "device 0",
        title: "GPU 0",
        kind: "device",
        lanes: ["7", "8", "9"].map((id) => ({ id: `${id}w`, title: `stream ${id}`, depth: 1 })),
      },
      {
        id: "host 100",
        title: "python",
        kind: "host",
        lanes: [
          { id: "0", title: "main thread", depth: 3 },
          { id: "1", title: "autograd", depth: 3 },
        ],
      },
    ],
  });
const one = timelineLanes({ ranks: [rank(0)], start: 0, end: 100 });
const many = (ranks: number) =>
  timelineLanes({
    ranks: Array.from({ length: ranks }, (_, at) => rank(at)),
    start: 0,
    end: 100,
  });

/** Ids of the lanes that are shown, rank by rank. */
const shownIn = (how: Arrangement, lanes = one) =>
  shownLanes(lanes, how)
    .ranks.map(({ groups }) => groups.flatMap((group) => group.lanes.map(({ id }) => id)).join(" "))
    .join(" | ");
const item = (what: Item["what"], key: string, lane = "", of = 0) => ({ what, key, lane, rank: of }) as Item;
const lane = (id: string, of = 0) => item("lane", keyOf.lane(of, id), id, of);

test("nothing arranged is the lanes themselves", () => {
  expect(shownLanes(one, PLAIN)).toBe(one);
});

test("a filter keeps lanes by name, or all of a group; commas part alternatives", () => {
  expect(shownIn({ ...PLAIN, filter: "STREAM 8, auto" })).toBe("8w 1");
  expect(shownIn({ ...PLAIN, filter: "python" })).toBe("0 1");
  expect(shownIn({ ...PLAIN, filter: " , " })).toBe("7w 8w 9w 0 1");
  expect(shownIn({ ...PLAIN, filter: "nothing" })).toBe("");
  expect(shownIn({ ...PLAIN, filter: "rank 1" }, many(3))).toBe("7w 8w 9w 0 1");
});

test("lanes, groups and ranks are hidden", () => {
  expect(shownIn(flipped(PLAIN, "hidden", keyOf.lane(0, "8w")))).toBe("7w 9w 0 1");
  expect(shownIn(flipped(PLAIN, "hidden", keyOf.group(0, "device 0")))).toBe("0 1");
  expect(shownLanes(many(2), flipped(PLAIN, "hidden", keyOf.rank(0))).ranks.map((each) => each.rank)).toEqual([1]);
  const hidden = flipped(PLAIN, "hidden", keyOf.lane(0, "8w"));
  expect(flipped(hidden, "hidden", keyOf.lane(0, "8w"))).toEqual(PLAIN);
});

test("a lane is dropped among its siblings, elsewhere its group or rank goes with it", () => {
  const after = dropped(PLAIN, one, lane("7w"), lane("8w"), true);
  expect(shownIn(after)).toBe("8w 7w 9w 0 1");
  expect(shownIn(dropped(after, one, lane("9w"), lane("8w"), false))).toBe("9w 8w 7w 0 1");
  expect(shownIn(dropped(PLAIN, one, lane("1"), lane("8w"), false))).toBe("0 1 7w 8w 9w");
  expect(dropped(PLAIN, one, lane("7w"), lane("8w"), false)).toBe(PLAIN);
  const ranks = dropped(PLAIN, many(3), item("rank", "r2", "", 2), lane("0", 0), false);
  expect(shownLanes(many(3), ranks).ranks.map((each) => each.rank)).toEqual([2, 0, 1]);
});

test("a lane goes one place up or down; at the edge its group does", () => {
  expect(shownIn(nudged(PLAIN, one, lane("8w"), 1))).toBe("7w 9w 8w 0 1");
  expect(shownIn(nudged(PLAIN, one, lane("8w"), -1))).toBe("8w 7w 9w 0 1");
  expect(shownIn(nudged(PLAIN, one, lane("9w"), 1))).toBe("0 1 7w 8w 9w");
  expect(nudged(PLAIN, one, lane("1"), 1)).toBe(PLAIN);
});

test("rows are made higher and lower, to the usual height and back", () => {
  const key = keyOf.lane(0, "0");
  const high = resized(resized(PLAIN, key, 1), key, 1);
  const tall = (how: Arrangement) => layout(one, how, 1200).scrolled.find((each) => each.key === key)?.pitch ?? 0;
  expect(tall(high)).toBe(2 * tall(PLAIN));
  expect(resized(resized(high, key, -1), key, -1)).toEqual(PLAIN);
  expect(tall(resized(PLAIN, "*", -1))).toBe(Math.round(tall(PLAIN) / 2));
});

test("the whole arrangement goes into the address and comes back", () => {
  let how: Arrangement = { ...PLAIN, filter: "stream, main", labels: 240 };
  how = flipped(flipped(how, "hidden", keyOf.group(0, "host 100")), "pinned", keyOf.lane(0, "9w"));
  how = resized(resized(how, "*", 2), keyOf.lane(0, "7w"), -1);
  how = nudged(dropped(how, one, lane("7w"), lane("8w"), true), one, lane("9w"), -1);
  const params = arrangedParams(how, PLAIN);
  expect(params).toMatchObject({ hide: "g0/host_100", tall: "*:4 l0/7w:3", labels: "240", filter: "stream, main" });
  expect(arrangementFrom(one, params as Record<string, string>, PLAIN)).toEqual(how);
  const strange = { hide: "l9/none x", move: "a>b l0/7w", tall: "l0/7w:99 l0/7w:x", labels: "NaN", filter: "" };
  expect(arrangementFrom(one, strange, PLAIN)).toEqual(PLAIN);
});

test("a mark that is gone to is shown, whatever hides its lane", () => {
  const mark = { rank: 0, lane: "1", depth: 0 };
  for (const how of [
    { ...PLAIN, filter: "stream" },
    flipped(PLAIN, "hidden", keyOf.group(0, "host 100")),
    flipped(PLAIN, "hidden", keyOf.lane(0, "1")),
  ]) {
    const at = layout(one, how, 1200);
    expect(at.scrolled.some(({ lane: id }) => id === "1")).toBe(false);
    const next = layout(one, unfolded(one, how, at, mark), 1200);
    expect(next.scrolled.some(({ lane: id }) => id === "1")).toBe(true);
  }
});

test("sixty-four ranks are seen at once, each with computation and communication, stragglers named", () => {
  const folded = new Set(Array.from({ length: 64 }, (_, at) => keyOf.rank(at)));
  const known = { used: new Map(), ranks: new Map([[21, "straggler"]]) };
  const at = layout(many(64), { ...PLAIN, folded }, 1200, 520, known);
  expect(at.height).toBeLessThanOrEqual(520);
  const titled = at.scrolled.filter(({ quiet }) => !quiet);
  expect(titled.some(({ rank: number }) => number === 21)).toBe(true);
  titled.forEach((each, place) => {
    const next = titled[place + 1];
    if (next) expect(next.top - each.top).toBeGreaterThanOrEqual(13);
  });
  for (const line of at.scrolled) {
    const { upper, lower } = stripsOf(line);
    expect(upper.from + upper.tall).toBeLessThanOrEqual(lower.from);
    expect(lower.from + lower.tall).toBeLessThanOrEqual(line.height);
  }
  expect(layout(many(8), { ...PLAIN, folded }, 1200, 520).scrolled[0]?.height).toBe(28);
});
