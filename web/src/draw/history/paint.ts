/** The picture of a run: lanes of marks, bands of step time, ranks that are behind. */

import type { RunMark } from "../../api/blocks";
import { blended, colour, INK } from "../../base/colour";
import { grouped, shown } from "../../base/numbers";
import type { HistoryTile } from "../../api/answers";
import { limits, placesIn, type Piece, type Stretch } from "./pieces";

export const GUTTER = 84;
export const LANE = 15;
export const BANDS = 170;
export const AXIS = 22;
const GAP = 10;
const MOST_BEHIND = 250;

/** The lanes of marks from above: kind, words, the colour of its kind. */
export const LANES: readonly (readonly [string, string, string])[] = [
  ["change", "changes", "waiting"],
  ["window", "windows", "computation"],
  ["save", "saves", "memory"],
  ["evaluation", "evaluations", "runtime"],
  ["compile", "compilations", "communication"],
  ["collection", "collections", "host"],
  ["restart", "restarts", "waiting"],
  ["phase", "phases", "data_loading"],
];

/** Where everything stands, in px from above. */
export interface Layout {
  readonly lanes: readonly (readonly [string, string, string])[];
  readonly bands: number;
  readonly axis: number;
  readonly heat: number;
  readonly row: number;
  readonly rows: number;
  readonly height: number;
}

export function layoutOf(kinds: ReadonlySet<string>, rows: number): Layout {
  const lanes = LANES.filter(([kind]) => kinds.has(kind));
  const bands = lanes.length * LANE + (lanes.length ? GAP : 0);
  const axis = bands + BANDS;
  const row = rows ? Math.max(3, Math.min(16, Math.floor(190 / rows))) : 0;
  return { lanes, bands, axis, heat: axis + AXIS, row, rows, height: axis + AXIS + row * rows + 2 };
}

export interface Scene {
  readonly pieces: readonly Piece[];
  readonly marks: readonly RunMark[];
  readonly view: Stretch;
  readonly layout: Layout;
  readonly width: number;
  readonly dark: boolean;
  readonly chosen: Stretch | null;
}

export const xOf = ({ view, width }: Pick<Scene, "view" | "width">, step: number): number =>
  GUTTER + ((step - view.from) / (view.to - view.from)) * (width - GUTTER);

export const stepAt = ({ view, width }: Pick<Scene, "view" | "width">, x: number): number =>
  view.from + ((x - GUTTER) / (width - GUTTER)) * (view.to - view.from);

type Surface = CanvasRenderingContext2D;

export function paint(pen: Surface, scene: Scene): void {
  const ink = INK[scene.dark ? "dark" : "light"];
  pen.font = "12px system-ui, sans-serif";
  paintLanes(pen, scene);
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, 0, scene.width - GUTTER, scene.layout.height);
  pen.clip();
  const [low, high] = limits(scene.pieces, scene.view);
  paintBands(pen, scene, low, high);
  paintBehind(pen, scene);
  if (scene.chosen) {
    const [left, right] = [xOf(scene, scene.chosen.from), xOf(scene, scene.chosen.to)];
    pen.fillStyle = ink.accent;
    pen.globalAlpha = 0.13;
    pen.fillRect(left, 0, Math.max(right - left, 1), scene.layout.height);
    pen.globalAlpha = 1;
    pen.fillRect(left, 0, 1, scene.layout.height);
    pen.fillRect(right - 1, 0, 1, scene.layout.height);
  }
  pen.restore();
  paintAxes(pen, scene, low, high);
}

function paintLanes(pen: Surface, scene: Scene): void {
  const ink = INK[scene.dark ? "dark" : "light"];
  scene.layout.lanes.forEach(([kind, name, shade], place) => {
    const y = place * LANE;
    pen.fillStyle = ink.soft;
    pen.textAlign = "right";
    pen.fillText(name, GUTTER - 8, y + LANE / 2);
    pen.fillStyle = colour(shade, scene.dark);
    for (const mark of scene.marks) {
      if (mark.kind !== kind || mark.until < scene.view.from || mark.step > scene.view.to) continue;
      const left = Math.max(xOf(scene, mark.step), GUTTER);
      // A change lasts; what else happens is at a place.
      const right = kind === "change" ? Math.min(xOf(scene, mark.until), scene.width) : left;
      if (right - left > 3) {
        pen.globalAlpha = 0.3;
        pen.fillRect(left, y + 5, right - left, LANE - 10);
        pen.globalAlpha = 1;
      }
      pen.fillRect(left - 1, y + 2, 3, LANE - 4);
    }
  });
}

function paintBands(pen: Surface, scene: Scene, low: number, high: number): void {
  const { bands } = scene.layout;
  const y = (value: number) => bands + BANDS - ((Math.min(value, high) - low) / (high - low)) * (BANDS - 4);
  const [band, line, late] = [
    blended(INK[scene.dark ? "dark" : "light"].panel, colour("computation", scene.dark), 0.4),
    colour("computation", scene.dark),
    colour("waiting", scene.dark),
  ];
  for (const piece of scene.pieces) {
    const { size, first, fastest, median, slowest } = piece.buckets;
    const [begin, end] = placesIn(piece);
    for (let place = begin; place < end; place++) {
      const [least, middle, most] = [fastest[place], median[place], slowest[place]];
      if (least == null || middle == null || most == null) continue;
      const from = xOf(scene, Math.max(first + place * size, piece.from));
      const to = xOf(scene, Math.min(first + (place + 1) * size, piece.to));
      if (to < GUTTER || from > scene.width) continue;
      const wide = Math.max(to - from, 1);
      pen.fillStyle = band;
      pen.fillRect(from, y(most), wide, Math.max(y(least) - y(most), 1));
      if (most > high) {
        pen.fillStyle = late;
        pen.fillRect(from, bands, wide, 4);
      }
      pen.fillStyle = line;
      pen.fillRect(from, y(middle) - 1, wide, 2);
    }
  }
}

const images = new WeakMap<HistoryTile, Map<boolean, HTMLCanvasElement>>();

/** The rows of a tile, a px for each bucket: made once. */
function imageOf(tile: HistoryTile, dark: boolean): HTMLCanvasElement | null {
  const known = images.get(tile) ?? new Map<boolean, HTMLCanvasElement>();
  images.set(tile, known);
  const before = known.get(dark);
  if (before) return before;
  const made = document.createElement("canvas");
  made.width = Math.max(tile.median.length, 1);
  made.height = Math.max(tile.behind.length, 1);
  const pen = made.getContext("2d");
  if (!pen) return null;
  const shades = Array.from({ length: 33 }, (_, step) => shadeOf(step / 32, dark));
  tile.behind.forEach((row, y) =>
    row.forEach((value, x) => {
      if (value === null) return;
      pen.fillStyle = shades[Math.round(Math.min(Math.max(value / MOST_BEHIND, 0), 1) * 32)] as string;
      pen.fillRect(x, y, 1, 1);
    }),
  );
  known.set(dark, made);
  return made;
}

export const shadeOf = (share: number, dark: boolean): string =>
  blended(colour("idle", dark), colour("waiting", dark), share);

function paintBehind(pen: Surface, scene: Scene): void {
  const { heat, row, rows } = scene.layout;
  pen.imageSmoothingEnabled = false;
  for (const piece of scene.pieces) {
    const image = imageOf(piece.buckets, scene.dark);
    const [begin, end] = placesIn(piece);
    if (!image || end <= begin) continue;
    const { size, first, behind } = piece.buckets;
    const from = xOf(scene, first + begin * size);
    const to = xOf(scene, first + end * size);
    pen.drawImage(image, begin, 0, end - begin, behind.length, from, heat, to - from, row * rows);
  }
}

function paintAxes(pen: Surface, scene: Scene, low: number, high: number): void {
  const ink = INK[scene.dark ? "dark" : "light"];
  const { bands, axis, heat, row, rows } = scene.layout;
  pen.fillStyle = ink.line;
  pen.fillRect(GUTTER, axis, scene.width - GUTTER, 1);
  pen.fillStyle = ink.soft;
  pen.textAlign = "right";
  pen.fillText(shown(high, "ns"), GUTTER - 8, bands + 6);
  pen.fillText(shown(low, "ns"), GUTTER - 8, axis - 5);
  const every = Math.max(1, Math.ceil(14 / Math.max(row, 1)));
  const words = scene.pieces[0]?.buckets.ranks ?? [];
  for (let place = 0; place < rows; place += every) {
    const text = words[place];
    if (text) pen.fillText(text.replace(/^ranks /, ""), GUTTER - 8, heat + (place + 0.5) * row);
  }
  for (const step of ticks(scene.view, (scene.width - GUTTER) / 110)) {
    const x = xOf(scene, step);
    pen.fillStyle = ink.line;
    pen.fillRect(x, axis, 1, 4);
    pen.fillStyle = ink.soft;
    pen.textAlign = x > scene.width - 40 ? "right" : x < GUTTER + 30 ? "left" : "center";
    pen.fillText(grouped(step), x, axis + 13);
  }
}

/** Round numbers of steps in view, so many at most. */
export function ticks(view: Stretch, most: number): number[] {
  const raw = Math.max((view.to - view.from) / Math.max(most, 1), 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const every = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw) ?? power * 10;
  const found = [];
  for (let step = Math.ceil(view.from / every) * every; step < view.to; step += every) found.push(step);
  return found;
}
