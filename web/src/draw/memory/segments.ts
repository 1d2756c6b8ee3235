/**
 * The segments of an allocator as lines of text: those of a group follow one another, and go on in the next line where
 * they do not fit. A byte is as wide everywhere, so that areas can be compared.
 */

import type { MemoryHeap } from "../../api/answers";
import { INK } from "../../base/colour";
import { fitted, printable } from "../../base/text";
import type { Pen } from "../../blocks/pen";

export const [LINE, APART, LABEL] = [13, 4, 22];
const GAP = 3;
/** Of the width of a line: longer segments go on in the next line, others stay whole. */
const UNBROKEN = 0.25;

/** A part of a segment in one line. */
export interface Placed {
  readonly segment: number;
  /** Bytes of the segment before it, and in it. */
  readonly start: number;
  readonly size: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

export interface Layout {
  readonly placed: readonly Placed[];
  /** The first of each segment. */
  readonly first: Int32Array;
  readonly labels: readonly { readonly y: number; readonly text: string }[];
  readonly height: number;
  readonly perPx: number;
}

/** Segments in lines of `width` px, `perPx` bytes in each; those of a group by when they were reserved. */
export function arranged({ segments, groups }: MemoryHeap, width: number, perPx: number): Layout {
  const order = segments.size.map((_, at) => at);
  const { group, allocated_at: when } = segments;
  order.sort(
    (a, b) => (group[a] as number) - (group[b] as number) || (when[a] as number) - (when[b] as number) || a - b,
  );
  const placed: Placed[] = [];
  const labels: { y: number; text: string }[] = [];
  const first = new Int32Array(order.length).fill(-1);
  let [x, y, now] = [0, -LINE - APART, -1];
  for (const segment of order) {
    if (group[segment] !== now) {
      now = group[segment] as number;
      y += LINE + APART + (labels.length ? 4 : 0);
      labels.push({ y, text: groups[now] ?? "" });
      y += LABEL;
      x = 0;
    }
    const size = segments.size[segment] as number;
    const needs = size / perPx;
    if (x > 0 && needs <= width * UNBROKEN && x + needs > width) [x, y] = [0, y + LINE + APART];
    first[segment] = placed.length;
    for (let start = 0; start < size;) {
      if (x >= width - 1) [x, y] = [0, y + LINE + APART];
      const part = Math.min(size - start, (width - x) * perPx);
      placed.push({ segment, start, size: part, x, y, width: Math.max(1, part / perPx) });
      x += part / perPx;
      start += part;
    }
    x += GAP;
  }
  return { placed, first, labels, height: y + LINE + APART, perPx };
}

/** The same so that all lines fit into `height` px, or as near as that comes. */
export function fittedInto(heap: MemoryHeap, width: number, height: number): Layout {
  const whole = heap.segments.size.reduce((sum, each) => sum + each, 0);
  let perPx = Math.max(1, whole / (width * Math.max(1, Math.floor(height / (LINE + APART)))));
  let layout = arranged(heap, width, perPx);
  for (let turn = 0; layout.height > height && turn < 40; turn += 1) layout = arranged(heap, width, (perPx *= 1.12));
  return layout;
}

export interface HeapLook {
  readonly width: number;
  readonly top: number;
  readonly height: number;
  readonly dark: boolean;
  readonly fills: readonly string[];
  readonly alone: number;
  readonly allocation: number;
}

export function drawHeap(pen: Pen, heap: MemoryHeap, layout: Layout, look: HeapLook): void {
  const { top, height, width, dark, fills, alone, allocation } = look;
  const { placed, first, labels, perPx } = layout;
  const ink = INK[dark ? "dark" : "light"];
  const seen = (y: number) => y + LINE > top && y < top + height;
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = ink.soft;
  for (const { y, text } of labels)
    if (y + LABEL > top && y < top + height) pen.fillText(fitted(printable(text), width, 12), 0, y - top + 12);
  for (const part of placed) {
    if (!seen(part.y)) continue;
    pen.fillStyle = ink.soft;
    pen.fillRect(part.x, part.y - top, part.width, LINE);
    const [wide, inset] = [part.width - 2, part.width > 3 ? 1 : 0];
    pen.fillStyle = ink.panel;
    if (inset) pen.fillRect(part.x + inset, part.y - top + 1, wide, LINE - 2);
  }
  let fill = "";
  for (const [segment, offset, size, , category, row, , waits] of heap.rows) {
    if (category < 0) continue;
    let at = first[segment] as number;
    let part = placed[at];
    if (!part) continue;
    while (part && part.segment === segment && part.start + part.size <= offset) part = placed[++at];
    const of = fills[category] as string;
    if (of !== fill) pen.fillStyle = fill = of;
    const strength = alone >= 0 && alone !== category ? 0.18 : waits ? 0.55 : 1;
    pen.globalAlpha = strength;
    for (; part && part.segment === segment && part.start < offset + size; part = placed[++at]) {
      if (!seen(part.y)) continue;
      const begin = Math.max(offset, part.start);
      const wide = (Math.min(offset + size, part.start + part.size) - begin) / perPx;
      const x = part.x + (begin - part.start) / perPx;
      pen.fillRect(x, part.y - top + 1, Math.max(0.4, wide - (wide > 4 ? 1 : 0)), LINE - 2);
      if (row === allocation && row >= 0) {
        pen.strokeStyle = ink.ink;
        pen.lineWidth = 2;
        pen.strokeRect(x, part.y - top, Math.max(2, wide), LINE);
      }
    }
  }
  pen.globalAlpha = 1;
}

/** The row of the heap at a place of the picture, −1 for none. */
export function rowUnder(heap: MemoryHeap, { placed, perPx }: Layout, x: number, y: number): number {
  const part = placed.find(
    (each) => y >= each.y - 1 && y < each.y + LINE + 1 && x >= each.x && x < each.x + Math.max(3, each.width),
  );
  if (!part) return -1;
  const offset = part.start + (x - part.x) * perPx;
  let [low, high] = [0, heap.rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const [segment, begin] = heap.rows[middle] as MemoryHeap["rows"][number];
    if (segment < part.segment || (segment === part.segment && begin <= offset)) low = middle + 1;
    else high = middle;
  }
  const found = heap.rows[low - 1];
  return found && found[0] === part.segment ? low - 1 : -1;
}
