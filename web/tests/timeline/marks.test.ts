import { expect, test } from "vitest";
import { Inks, inkOn, LEVELS, luminance, mix, Rects } from "../../src/draw/timeline/engine/inks";
import { type Frame, type Label, Rows } from "../../src/draw/timeline/engine/marks";
import type { Piece } from "../../src/draw/timeline/engine/store";
import { decode } from "../../src/draw/timeline/engine/tile";
import type { Theme } from "../../src/draw/timeline/engine/types";
import { type DrawnMark, packed } from "./drawn";

const theme = { ground: "#ffffff", kinds: { host: "#8a94a6", computation: "#0072b2" } } as unknown as Theme;

class Drawn extends Rects {
  readonly all: { ink: number; x: number; width: number }[] = [];
  override add(ink: number, x: number, y: number, width: number, height: number): void {
    super.add(ink, x, y, width, height);
    this.all.push({ ink, x, width });
  }
}

function drawn(tiles: readonly [number, readonly DrawnMark[]][], { z = 0, scale = 1, left = 0, right = 4096 } = {}) {
  const rects = new Drawn();
  const labels: Label[] = [];
  const decoded = tiles.map(([i, marks]) => decode(packed(z, i, marks)));
  const names = new Map(decoded.flatMap((tile) => [...tile.names]));
  const pieces: Piece[] = decoded.map((tile) => ({ tile, start: tile.start, end: tile.start + 1024 * tile.unit }));
  const frame: Frame = {
    left,
    right,
    zero: left,
    scale,
    dpr: 1,
    hues: false,
    inks: new Inks(theme),
    rects,
    labels,
    room: 28,
    name: (code) => names.get(code) ?? "",
    found: null,
    only: null,
  };
  new Rows().row(frame, pieces, "0", 0, 0, 14);
  return { rects: rects.all, labels };
}

const mark = (start: number, end: number, row = 1, more: Partial<DrawnMark> = {}): DrawnMark => ({
  lane: "0",
  depth: 0,
  start,
  end,
  row,
  ...more,
});

test("a wide mark is a rectangle with its name, a hair short of its neighbour", () => {
  const { rects, labels } = drawn([[0, [mark(100, 200, 1, { name: "aten::mm" }), mark(200, 300, 2)]]]);
  expect(rects.map(({ x, width }) => [x, width])).toEqual([
    [100, 99],
    [200, 99],
  ]);
  expect(labels.map(({ text }) => text)).toEqual(["aten::mm"]);
});

test("a mark that goes on in the next tiles is one rectangle", () => {
  const long = mark(-1, 1025, 7, { name: "train" });
  const { rects, labels } = drawn([
    [0, [mark(900, 1025, 7, { name: "train" })]],
    [1, [long]],
    [2, [mark(-1, 52, 7, { name: "train" })]],
  ]);
  expect(rects.map(({ x, width }) => [x, width])).toEqual([[900, 1199]]);
  expect(labels.length).toBe(1);
});

test("marks that touch the edges of tiles and are not the same stay apart", () => {
  const { rects } = drawn([
    [0, [mark(900, 1024, 7)]],
    [1, [mark(0, 100, 8)]],
  ]);
  expect(rects.length).toBe(2);
});

test("narrow marks are drawn as lightly as they fill their pixels, and cost no more than those", () => {
  const many = Array.from({ length: 500 }, (_, at) => mark(at * 2, at * 2 + 1, at));
  const half = drawn([[0, many]], { scale: 0.5 });
  expect(half.rects.length).toBe(1);
  expect((half.rects[0]?.ink ?? 0) % LEVELS).toBe(2);
  expect(half.rects[0]?.width).toBe(500);
  const full = drawn([[0, Array.from({ length: 500 }, (_, at) => mark(at, at + 1, at))]]);
  expect((full.rects[0]?.ink ?? 0) % LEVELS).toBe(LEVELS - 1);
});

test("nothing is drawn beyond the edges", () => {
  const { rects } = drawn([[0, [mark(-1, 1025), mark(1025, 1025.5, 2)]]], { left: 50, right: 300 });
  for (const { x, width } of rects) {
    expect(x).toBeGreaterThanOrEqual(50);
    expect(x + width).toBeLessThanOrEqual(300);
  }
});

test("colours", () => {
  expect(mix("#000000", "#ffffff", 0.5)).toBe("rgb(128,128,128)");
  expect(luminance("#ffffff")).toBeCloseTo(1);
  expect([inkOn("#0072b2"), inkOn("#e69f00")]).toEqual(["#ffffff", "#14171a"]);
  const inks = new Inks(theme);
  expect(inks.of("computation", 0)).toBe(inks.of("computation", 5));
  expect(inks.of("host", 0)).not.toBe(inks.of("host", 1));
});
