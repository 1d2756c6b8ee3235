import { expect, test } from "vitest";
import type { MemoryHeap } from "../src/api/answers";
import { arranged, fittedInto, rowUnder } from "../src/draw/memory/segments";
import { rowAt } from "../src/draw/memory/bands";

const MB = 1_000_000;

/** Three segments in two groups; the second of the first group was reserved first. */
const heap: MemoryHeap = {
  event: 7,
  time: null,
  sentence: "",
  groups: ["Large blocks", "Small blocks"],
  segments: {
    address: ["0x0", "0x1", "0x2"],
    size: [20 * MB, 50 * MB, 2 * MB],
    group: [0, 0, 1],
    allocated_at: [5, -1, 3],
    expandable: [false, false, false],
  },
  bytes: {},
  rows: [
    [0, 0, 8 * MB, 8 * MB, 0, 11, 1, false],
    [0, 8 * MB, 12 * MB, 0, -1, -1, 1, false],
    [1, 0, 50 * MB, 50 * MB, 1, 12, 1, false],
    [2, 0, 2 * MB, MB, 1, 13, 1, false],
  ],
};

test("segments of a group stand in the order in which they were reserved, as wide as they are large", () => {
  const { placed, labels } = arranged(heap, 100, MB);
  expect(placed.map(({ segment, x, width }) => [segment, x, width])).toEqual([
    [1, 0, 50],
    [0, 53, 20],
    [2, 0, 2],
  ]);
  expect(labels.map(({ text }) => text)).toEqual(["Large blocks", "Small blocks"]);
});

test("a segment that is longer than a line goes on in the next one, and none of it is lost", () => {
  const { placed } = arranged(heap, 30, MB);
  const parts = placed.filter(({ segment }) => segment === 1);
  expect(parts.map(({ start, size }) => [start / MB, size / MB])).toEqual([
    [0, 30],
    [30, 20],
  ]);
  expect(new Set(parts.map(({ y }) => y)).size).toBe(2);
});

test("all lines fit into the height", () => {
  expect(fittedInto(heap, 40, 90).height).toBeLessThanOrEqual(90);
});

test("a place in the picture has the block that is drawn there", () => {
  const layout = arranged(heap, 30, MB);
  for (const [row, each] of heap.rows.entries()) {
    const [segment, offset, size] = each;
    const middle = offset + size / 2;
    const part = layout.placed.find(
      (of) => of.segment === segment && of.start <= middle && middle < of.start + of.size,
    );
    if (part) expect(rowUnder(heap, layout, part.x + (middle - part.start) / layout.perPx, part.y + 5)).toBe(row);
  }
  expect(rowUnder(heap, layout, 29.5, layout.height - 5)).toBe(-1);
});

test("a row holds from its place to the next", () => {
  const rows = [
    [-1, 0, 1],
    [4, 10, 1],
    [9, 30, 1],
  ];
  expect([-5, 0, 9, 10, 29, 30, 99].map((place) => rowAt(rows, place))).toEqual([0, 0, 0, 1, 1, 2, 2]);
});
