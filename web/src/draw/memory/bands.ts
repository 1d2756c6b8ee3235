/** Bytes by category over time or events, as stacked steps; where an instant stands, and which one stands at a place. */

import type { MemoryBands } from "../../api/answers";
import { INK } from "../../base/colour";
import { scale, withUnit } from "../../base/numbers";
import type { Pen } from "../../blocks/pen";
import { niceStep, ticks } from "../timeline/engine/ruler";

export const [LEFT, RIGHT, TOP, BOTTOM] = [64, 2, 22, 22];
const [EVENT, AT, RESERVED, LEVELS] = [0, 1, 2, 3];

export interface Stretch {
  readonly from: number;
  readonly to: number;
}

export interface Look {
  readonly width: number;
  readonly height: number;
  /** What is in view. */
  readonly view: Stretch;
  /** Bytes at the top of the axis. */
  readonly most: number;
  readonly dark: boolean;
  /** Columns of categories from below, and their colours. */
  readonly order: readonly number[];
  readonly fills: readonly string[];
  /** All categories are drawn, and beside them what is reserved. */
  readonly whole: boolean;
}

export const eventOf = (row: readonly number[] | undefined): number => row?.[EVENT] ?? -1;
export const placeOf = (row: readonly number[] | undefined): number => row?.[AT] ?? 0;
export const reservedOf = (row: readonly number[] | undefined): number => row?.[RESERVED] ?? 0;
export const levelOf = (row: readonly number[] | undefined, category: number): number => row?.[LEVELS + category] ?? 0;

/** The row that holds at a place: the last that begins at it or before. */
export function rowAt(rows: MemoryBands["rows"], place: number, column = AT): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle]?.[column] ?? 0) <= place) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

/** The row of an event, or of the last before it. */
export const rowOf = (rows: MemoryBands["rows"], event: number): number => rowAt(rows, event, EVENT);

/** The greatest of all levels, or of one category. */
export const highest = (rows: MemoryBands["rows"], category = -1): number =>
  rows.reduce(
    (most, row) => Math.max(most, category < 0 ? Math.max(reservedOf(row), total(row)) : levelOf(row, category)),
    1,
  );

export const total = (row: readonly number[]): number => {
  let sum = 0;
  for (let at = LEVELS; at < row.length; at += 1) sum += row[at] as number;
  return sum;
};

/** Instants along the axis, as they are labelled. */
export function labels(by: MemoryBands["by"], { from, to }: Stretch, room: number): { at: number; text: string }[] {
  const least = (to - from) / Math.max(1, room);
  if (by === "time") return ticks(from, to, least, 0);
  const apart = Math.max(1, niceStep(least));
  const found: { at: number; text: string }[] = [];
  for (let at = Math.ceil(from / apart) * apart; at <= to && found.length < 200; at += apart)
    found.push({ at, text: at.toLocaleString("en") });
  return found;
}

export function drawBands(pen: Pen, { rows, by }: MemoryBands, look: Look): void {
  const { width, height, view, most, dark, order, fills, whole } = look;
  const ink = INK[dark ? "dark" : "light"];
  const [wide, tall] = [width - LEFT - RIGHT, height - TOP - BOTTOM];
  const x = (at: number) => LEFT + ((at - view.from) / (view.to - view.from || 1)) * wide;
  const y = (bytes: number) => TOP + tall * (1 - bytes / most);
  pen.font = "12px system-ui, sans-serif";
  const unit = scale([most], "bytes");
  const apart = niceStep(most / 5 / unit.divisor >= 1 ? most / 5 / unit.divisor : 1) * unit.divisor;
  pen.textAlign = "right";
  for (let bytes = 0; bytes <= most; bytes += apart) {
    pen.fillStyle = ink.line;
    pen.fillRect(LEFT, y(bytes), wide, 1);
    pen.fillStyle = ink.soft;
    pen.fillText(withUnit(unit, bytes), LEFT - 8, y(bytes));
  }
  pen.textAlign = "center";
  for (const { at, text } of labels(by, view, wide / 110)) {
    if (x(at) < LEFT || x(at) > width - RIGHT) continue;
    pen.fillStyle = ink.line;
    pen.fillRect(x(at), TOP + tall, 1, 4);
    pen.fillStyle = ink.soft;
    pen.textAlign = x(at) > width - 40 ? "right" : x(at) < LEFT + 30 ? "left" : "center";
    pen.fillText(text, x(at), TOP + tall + 13);
  }
  pen.textAlign = "start";
  const first = rowAt(rows, view.from);
  let last = rowAt(rows, view.to) + 1;
  if (last <= first) last = first + 1;
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, TOP, wide, tall);
  pen.clip();
  const sums = new Float64Array(last - first);
  const right = (row: number) => Math.min(width, row + 1 < rows.length ? x(placeOf(rows[row + 1])) : x(view.to));
  for (const category of order) {
    pen.fillStyle = fills[category] as string;
    pen.beginPath();
    let seen = false;
    for (let row = first; row < last; row += 1) {
      const level = levelOf(rows[row], category);
      const top = y((sums[row - first] as number) + level);
      seen ||= level > 0;
      const left = Math.max(LEFT, x(placeOf(rows[row])));
      if (row === first) pen.moveTo(left, top);
      else pen.lineTo(left, top);
      pen.lineTo(right(row), top);
    }
    for (let row = last - 1; row >= first; row -= 1) {
      const bottom = y(sums[row - first] as number);
      pen.lineTo(right(row), bottom);
      pen.lineTo(Math.max(LEFT, x(placeOf(rows[row]))), bottom);
      sums[row - first] = (sums[row - first] as number) + levelOf(rows[row], category);
    }
    if (seen) pen.fill();
  }
  pen.strokeStyle = ink.ink;
  pen.lineWidth = 1.25;
  pen.beginPath();
  for (let row = first; row < last; row += 1) {
    const level = y(reservedOf(rows[row]));
    if (row === first) pen.moveTo(LEFT, level);
    else pen.lineTo(Math.max(LEFT, x(placeOf(rows[row]))), level);
    pen.lineTo(right(row), level);
  }
  if (whole) pen.stroke();
  pen.restore();
}
