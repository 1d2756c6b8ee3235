import { expect, test } from "vitest";
import type { HistoryTile } from "../src/api/answers";
import type { History } from "../src/api/blocks";
import { layoutOf, stepAt, ticks, xOf } from "../src/draw/history/paint";
import {
  ageWords,
  bucketAt,
  limits,
  moved,
  piecesOf,
  placesIn,
  scaled,
  scaleFor,
  tileOf,
  tilesIn,
} from "../src/draw/history/pieces";

const tile = (first: number, size: number, times: (number | null)[]): HistoryTile => ({
  size,
  first,
  fastest: times,
  median: times,
  slowest: times,
  rank: times.map(() => 0),
  ranks: ["rank 0"],
  behind: [times.map(() => 0)],
  marks: [],
  whole: true,
});

test("the scale is that at which a bucket is a few px wide", () => {
  expect(scaleFor({ from: 0, to: 500 }, 1000)).toBe(0);
  expect(scaleFor({ from: 0, to: 2000 }, 1000)).toBe(1);
  expect(scaleFor({ from: 0, to: 1e6 }, 1000)).toBe(6);
});

test("tiles in view are those that a step of it is in", () => {
  expect(tilesIn({ from: 0, to: 256 }, 0)).toEqual([0]);
  expect(tilesIn({ from: 255, to: 257 }, 0)).toEqual([0, 1]);
  expect(tilesIn({ from: 1024, to: 3000 }, 1)).toEqual([1, 2]);
});

test("a coarser tile, else the overview, stands in for one that is missing", () => {
  const [fine, coarse, whole] = [tile(0, 1, [1]), tile(0, 4, [2]), tile(0, 64, [3])];
  const known = (scale: number, number: number) =>
    scale === 0 && number === 0 ? fine : scale === 1 && number === 0 ? coarse : undefined;
  expect(piecesOf({ from: 0, to: 2000 }, 0, known, whole).map((piece) => piece.buckets)).toEqual([
    fine,
    coarse,
    coarse,
    coarse,
    whole,
    whole,
    whole,
    whole,
  ]);
  expect(piecesOf({ from: 0, to: 10 }, 0, () => undefined, null)).toEqual([]);
});

test("buckets of a block without steps between are null", () => {
  const block = {
    size: 16,
    step: [32, 64],
    fastest: [1, 2],
    median: [3, 4],
    slowest: [5, 6],
    rank: [0, 1],
    ranks: ["rank 0"],
    behind: [[7, 8]],
    marks: [],
  } as unknown as History;
  expect(tileOf(block)).toMatchObject({ first: 32, median: [3, null, 4], rank: [0, -1, 1], behind: [[7, null, 8]] });
  expect(tileOf({ ...block, step: [] } as unknown as History)).toBeNull();
});

test("a piece has the buckets of its stretch, and the bucket of a step is found in it", () => {
  const piece = {
    from: 16,
    to: 32,
    buckets: tile(
      0,
      4,
      Array.from({ length: 16 }, (_, place) => place),
    ),
  };
  expect(placesIn(piece)).toEqual([4, 8]);
  expect(bucketAt([piece], 21)).toEqual({ piece, place: 5 });
  expect(bucketAt([piece], 40)).toBeNull();
});

test("a view stays within the run", () => {
  const all = { from: 0, to: 1000 };
  expect(moved({ from: 100, to: 200 }, -300, all)).toEqual({ from: 0, to: 100 });
  expect(moved({ from: 100, to: 200 }, 5000, all)).toEqual({ from: 900, to: 1000 });
  expect(scaled({ from: 400, to: 600 }, 0.5, 500, all)).toEqual({ from: 450, to: 550 });
  expect(scaled({ from: 400, to: 600 }, 100, 500, all)).toEqual(all);
  expect(scaled({ from: 400, to: 600 }, 0.001, 500, all)).toEqual({ from: 492, to: 508 });
});

test("one long step does not make all others flat", () => {
  const times = [...Array.from({ length: 50 }, () => 100), 10000];
  const [low, high] = limits([{ from: 0, to: 51, buckets: tile(0, 1, times) }], { from: 0, to: 51 });
  expect([low, high]).toEqual([95, 160]);
  expect(limits([], { from: 0, to: 1 })).toEqual([0, 1]);
});

test("a place on the picture is a step and back", () => {
  const scene = { view: { from: 100, to: 300 }, width: 884 };
  expect(xOf(scene, 200)).toBe(484);
  expect(stepAt(scene, 484)).toBe(200);
});

test("ticks are round numbers in view", () => {
  expect(ticks({ from: 0, to: 1000 }, 5)).toEqual([0, 200, 400, 600, 800]);
  expect(ticks({ from: 3, to: 7 }, 10)).toEqual([3, 4, 5, 6]);
});

test("only kinds of marks that are there have a lane", () => {
  expect(layoutOf(new Set(["save", "change"]), 4).lanes.map(([kind]) => kind)).toEqual(["change", "save"]);
});

test("how old the newest step is", () => {
  expect(ageWords(0.2)).toBe("The newest step ended 1.00\u00a0s ago.");
  expect(ageWords(90)).toBe("The newest step ended 90.0\u00a0s ago; no end of the run was recorded.");
});
