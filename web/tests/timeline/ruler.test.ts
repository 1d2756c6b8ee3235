import { expect, test } from "vitest";
import { instant, niceStep, ticks } from "../../src/draw/timeline/engine/ruler";

test("ticks are round, apart, inside, and in one unit", () => {
  for (const [start, end] of [
    [0, 1e9],
    [123456789, 123456999],
    [-5e6, 2e7],
    [3.5e9, 3.5e9 + 40],
  ] as const) {
    const least = (end - start) / 9;
    const found = ticks(start, end, least, 0);
    expect(found.length).toBeGreaterThan(1);
    found.forEach(({ at }, place) => {
      expect(at).toBeGreaterThanOrEqual(start);
      expect(at).toBeLessThanOrEqual(end);
      if (place) expect(at - (found[place - 1]?.at ?? 0)).toBeGreaterThanOrEqual(least * 0.999);
    });
    expect(new Set(found.map(({ text }) => text)).size).toBe(found.length);
    expect(new Set(found.map(({ text }) => text.split("\u202f").at(-1))).size).toBe(1);
  }
});

test("steps of 1, 2 and 5", () => {
  expect([1, 1.1, 2, 3, 7, 11, 99].map(niceStep)).toEqual([1, 2, 2, 5, 10, 20, 100]);
});

test("an instant is as fine as what is looked at", () => {
  expect(instant(305_124_567, 12_000)).toBe("305.12\u202fms");
  expect(instant(305_124_567, 12)).toBe("305.124\u200957\u202fms");
  expect(instant(22_300_000_000, 5_000)).toBe("22.300\u2009000\u202fs");
  expect(instant(0, 100)).toBe("0\u202fns");
});
