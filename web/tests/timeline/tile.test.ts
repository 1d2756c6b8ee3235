import { describe, expect, test } from "vitest";
import { decode, markAt, tilesIn, UNITS, zFor } from "../../src/draw/timeline/engine/tile";
import { packed } from "./drawn";

describe("a tile", () => {
  const tile = decode(
    packed(3, 2, [
      { lane: "0", depth: 0, start: -1, end: 100, row: 1, name: "train" },
      { lane: "0", depth: 0, start: 200, end: 1025, row: 2 },
      { lane: "0", depth: 2, start: 10, end: 12, row: 3 },
      { lane: "7w", depth: 0, start: 5, end: 6, row: 4, kind: "computation", count: 9 },
    ]),
  );

  test("stands where its number says", () => expect([tile.unit, tile.start]).toEqual([8, 2 * UNITS * 8]));

  test("holds the marks of each depth, also of one without any", () => {
    expect([...(tile.lanes.get("0")?.bounds ?? [])]).toEqual([0, 2, 2, 3]);
    expect([...(tile.lanes.get("7w")?.bounds ?? [])]).toEqual([3, 4]);
  });

  test("says names and kinds", () => {
    expect(tile.names.get(tile.name[0] ?? -1)).toBe("train");
    expect(tile.kinds[tile.kind[3] ?? 0]).toBe("computation");
  });

  test("finds the mark at an instant", () => {
    expect(markAt(tile, "0", 0, 50, 0)).toBe(0);
    expect(markAt(tile, "0", 0, 150, 0)).toBe(-1);
    expect(markAt(tile, "0", 2, 11, 0)).toBe(2);
    expect(markAt(tile, "0", 1, 11, 5)).toBe(-1);
    expect(markAt(tile, "none", 0, 11, 5)).toBe(-1);
  });

  test("finds the nearest mark within reach", () => {
    expect(markAt(tile, "0", 0, 104, 5)).toBe(0);
    expect(markAt(tile, "0", 0, 196, 5)).toBe(1);
    expect(markAt(tile, "0", 0, 150, 49)).toBe(-1);
  });
});

test("counters come with their levels", () => {
  const tile = decode(
    packed(
      0,
      0,
      [],
      [
        [0, 0.5],
        [10, 1],
      ],
    ),
  );
  expect(tile.counters.get("busy")).toEqual({ from: 0, to: 2 });
  expect([...tile.time]).toEqual([0, 10]);
});

test("bytes that are no tile are refused", () => {
  expect(() => decode(new ArrayBuffer(2))).toThrow("empty");
  expect(() => decode(packed(0, 0, [{ lane: "0", depth: 0, start: 0, end: 1, row: 0 }]).slice(0, 40))).toThrow(
    "cut short",
  );
});

test("a unit is half a pixel to one pixel wide, and never less than a nanosecond", () => {
  for (const nsPerPixel of [0.01, 1, 1.5, 2, 1000, 12345.6, 1e9]) {
    const unit = 2 ** zFor(nsPerPixel);
    expect(unit === 1 || (unit / nsPerPixel > 0.5 && unit / nsPerPixel <= 1)).toBe(true);
  }
});

test("tiles cover the window, before the first event too", () => {
  expect(tilesIn(0, 1024, 0)).toEqual([0, 0]);
  expect(tilesIn(-1, 1025, 0)).toEqual([-1, 1]);
  expect(tilesIn(4096, 4097, 1)).toEqual([2, 2]);
});
