import { expect, test } from "vitest";
import { lanesBetween, lanesFrom, textOfLanes } from "../../src/draw/timeline/engine/area";
import { keyOf, PLAIN } from "../../src/draw/timeline/engine/arrange";
import { layout } from "../../src/draw/timeline/engine/layout";
import type { RankLanes } from "../../src/api/answers";
import { rankLanes, timelineLanes } from "./answers";

const rank = (number: number): RankLanes =>
  rankLanes({
    rank: number,
    offset: 0,
    steps: [{ step: 1, start: 0, end: 10 }],
    groups: [
      { id: "steps", title: "steps", kind: "steps", lanes: [] },
      { id: "c", title: "counters", kind: "counter", lanes: [{ id: "busy.0", title: "busy", depth: 1 }] },
      { id: "d", title: "GPU 0", kind: "device", lanes: [{ id: "7w", title: "stream 7", depth: 1 }] },
      {
        id: "h",
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
const two = timelineLanes({ ranks: [rank(0), rank(3)], start: 0, end: 100 });

/** The middle of an item, in the picture. */
function middle(at: ReturnType<typeof layout>, key: string): number {
  const item = at.scrolled.find((each) => each.key === key);
  if (!item) throw new Error(key);
  return at.scrollTop + item.top + item.height / 2;
}

test("a drag covers the lanes from where it began to where it is, whichever is above", () => {
  const at = layout(one, PLAIN, 1200);
  const [stream, main] = [middle(at, keyOf.lane(0, "7w")), middle(at, keyOf.lane(0, "0"))];
  expect(lanesBetween(at, one, { y: stream, scroll: 0 }, stream, 0)).toEqual(["l0/7w"]);
  expect(lanesBetween(at, one, { y: stream, scroll: 0 }, main, 0)).toEqual(["l0/7w", "l0/0"]);
  expect(lanesBetween(at, one, { y: main, scroll: 0 }, stream, 0)).toEqual(["l0/7w", "l0/0"]);
});

test("what is scrolled meanwhile is covered too", () => {
  const at = layout(one, PLAIN, 1200);
  const [stream, last] = [middle(at, keyOf.lane(0, "7w")), middle(at, keyOf.lane(0, "1"))];
  expect(lanesBetween(at, one, { y: stream, scroll: 0 }, last - 60, 60)).toBeNull();
  expect(lanesBetween(at, one, { y: last - 60, scroll: 60 }, last - 60, 60)).toEqual(["l0/1"]);
});

test("rulers and counters are of all lanes", () => {
  const at = layout(one, PLAIN, 1200);
  const level = middle(at, keyOf.lane(0, "busy.0"));
  expect(lanesBetween(at, one, { y: at.lanesTop + 4, scroll: 0 }, at.lanesTop + 8, 0)).toBeNull();
  expect(lanesBetween(at, one, { y: level, scroll: 0 }, level, 0)).toBeNull();
});

test("the line of a rank and the head of a group stand for what is folded in them", () => {
  const folded = new Set([keyOf.rank(3), keyOf.group(0, "h")]);
  const at = layout(two, { ...PLAIN, folded }, 1200);
  const [line, head] = [middle(at, keyOf.rank(3)), middle(at, keyOf.group(0, "h"))];
  expect(lanesBetween(at, two, { y: line, scroll: 0 }, line, 0)).toEqual(["l3/7w"]);
  expect(lanesBetween(at, two, { y: head, scroll: 0 }, head, 0)).toEqual(["l0/0", "l0/1"]);
});

test("the address names lanes shortly, and what it names is read again", () => {
  expect(textOfLanes(one, ["l0/7w", "l0/0"])).toBe("7w,0");
  expect(textOfLanes(two, ["l3/7w", "l3/0", "l3/1", "l0/0"])).toBe("0/0,3/*");
  expect(textOfLanes(two, null)).toBe("");
  const five = timelineLanes({ ranks: [0, 1, 2, 3, 4].map(rank), start: 0, end: 100 });
  expect(textOfLanes(five, ["l1/7w", "l2/7w", "l4/0"])).toBe("4/0,1-2/w");
  expect(textOfLanes(five, lanesFrom(five, "1/*,2/*,3/*"))).toBe("1-3/*");
  for (const [lanes, keys] of [
    [one, ["l0/7w", "l0/0"]],
    [two, ["l0/0", "l3/7w", "l3/0", "l3/1"]],
    [five, ["l1/7w", "l2/7w", "l4/0"]],
    [five, [1, 2, 3].flatMap((at) => [`l${at}/7w`, `l${at}/0`, `l${at}/1`])],
  ] as const)
    expect(lanesFrom(lanes, textOfLanes(lanes, keys))).toEqual(keys);
  expect(lanesFrom(one, "none,9/*")).toBeNull();
});
