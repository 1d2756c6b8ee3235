/**
 * The marks of a row, as rectangles and labels in device pixels.
 *
 * What is narrower than two pixels is summed per pixel and drawn as lightly as it fills it, so that a dense row shows
 * how dense it is and never costs more than the pixels it has. A mark that goes on in the next tile is one rectangle.
 */

import { type Inks, LEVELS, type Rects } from "./inks";
import type { Piece } from "./store";
import { firstAfter, UNITS } from "./tile";

const NARROW = 2;

export interface Label {
  x: number;
  width: number;
  /** Middle of the row. */
  y: number;
  text: string;
  ink: number;
}

/** What a row needs to know of the frame: everything in device pixels. */
export interface Frame {
  left: number;
  right: number;
  /** Of the instant 0 of the rank. */
  zero: number;
  /** Pixels a nanosecond. */
  scale: number;
  dpr: number;
  inks: Inks;
  /** Colours by what the server says are their hues, instead of by kind. */
  hues: boolean;
  rects: Rects;
  labels: Label[];
  room: number;
  name: (code: number) => string;
  /** The rows or codes of names that were found; the others are drawn lightly. */
  found: { readonly by: "row" | "name"; readonly of: ReadonlySet<number> } | null;
  /** The kinds that are drawn; null: all. */
  only: ((kind: string) => boolean) | null;
}

export class Rows {
  private cover = new Float32Array(4096);
  private paint = new Int32Array(4096);
  private share = new Float32Array(4096);

  /** Draw the marks of one lane and depth. */
  row(frame: Frame, pieces: readonly Piece[], lane: string, depth: number, y: number, height: number): void {
    const { left, right, zero, scale, dpr, inks, rects, found } = frame;
    const wide = Math.ceil(right - left) + 2;
    if (this.cover.length < wide) {
      this.cover = new Float32Array(wide);
      this.paint = new Int32Array(wide);
      this.share = new Float32Array(wide);
    }
    const { cover, paint, share } = this;
    let low = wide;
    let high = -1;
    let openRow = -1;
    let openInk = 0;
    let openFrom = 0;
    let openTo = 0;
    let openName = -1;
    const close = () => {
      if (openTo <= openFrom) return;
      const from = Math.round(openFrom);
      const to = Math.max(from + 1, Math.round(openTo));
      // A hair between neighbours, where there is room for one.
      const gap = to - from > 3 * dpr ? Math.max(1, Math.round(dpr * 0.75)) : 0;
      rects.add(openInk, from, y, to - from - gap, height);
      if (openName >= 0 && to - from >= frame.room) {
        const text = frame.name(openName);
        if (text) frame.labels.push({ x: from, width: to - from - gap, y: y + height / 2, text, ink: openInk });
      }
      openTo = openFrom;
      openRow = -1;
    };
    for (const { tile, start, end } of pieces) {
      const marks = tile.lanes.get(lane);
      if (!marks || depth + 1 >= marks.bounds.length) continue;
      const first = marks.bounds[depth] ?? 0;
      const last = marks.bounds[depth + 1] ?? 0;
      const unit = tile.unit * scale;
      const origin = zero + tile.start * scale;
      const from = Math.max(left, zero + start * scale);
      const to = Math.min(right, zero + end * scale);
      if (to <= from) continue;
      const tileEnd = zero + (tile.start + UNITS * tile.unit) * scale;
      const { begin, end: ends, kind, row, name, hue, cover: filled, kinds } = tile;
      for (let mark = firstAfter(ends, first, last, (from - origin) / unit); mark < last; mark++) {
        const raw = origin + (begin[mark] ?? 0) * unit;
        if (raw >= to) break;
        const x0 = raw > from ? raw : from;
        const over = origin + (ends[mark] ?? 0) * unit;
        const x1 = over < to ? over : to;
        const code = name[mark] ?? -1;
        const dim = found !== null && !found.of.has(found.by === "name" ? code : (row[mark] ?? -1));
        if (frame.only && !frame.only(kinds[kind[mark] ?? 0] ?? "other")) continue;
        const base = frame.hues ? inks.hue(hue[mark] ?? 0) : inks.of(kinds[kind[mark] ?? 0] ?? "other", depth);
        const fill = filled ? (filled[mark] ?? 255) / 255 : 1;
        if (openRow >= 0 && openRow === row[mark] && x0 - openTo < 1.5) {
          openTo = x1;
          if (over < tileEnd) close();
          continue;
        }
        if (x1 - x0 >= NARROW) {
          close();
          const level = dim ? 0 : Math.min(LEVELS - 1, Math.max(1, Math.ceil(fill * LEVELS) - 1));
          openRow = row[mark] ?? -1;
          openInk = base + level;
          openFrom = x0;
          openTo = x1;
          openName = dim ? -1 : code;
          // Only what reaches the end of its tile may go on in the next one.
          if (over < tileEnd - 0.5) close();
          continue;
        }
        const weight = dim ? 0.25 : Math.max(0.2, fill);
        let pixel = Math.floor(x0 - left);
        let at = x0 - left;
        const stop = Math.max(x1 - left, at + 0.2);
        while (at < stop && pixel < wide) {
          const part = (Math.min(stop, pixel + 1) - at) * weight;
          cover[pixel] = (cover[pixel] ?? 0) + part;
          if (part > (share[pixel] ?? 0)) {
            share[pixel] = part;
            paint[pixel] = base;
          }
          if (pixel < low) low = pixel;
          if (pixel > high) high = pixel;
          pixel++;
          at = pixel;
        }
      }
      if (openRow >= 0 && openTo < tileEnd - 0.5) close();
    }
    close();
    this.pixels(rects, low, high, left, y, height);
  }

  /** Pixels alike beside one another become one rectangle. */
  private pixels(rects: Rects, low: number, high: number, left: number, y: number, height: number): void {
    const { cover, paint, share } = this;
    let ink = -1;
    let from = low;
    for (let pixel = low; pixel <= high + 1; pixel++) {
      const full = pixel <= high ? (cover[pixel] ?? 0) : 0;
      const here = full > 0.02 ? (paint[pixel] ?? 0) + Math.min(LEVELS - 1, Math.floor(full * LEVELS)) : -1;
      if (here !== ink) {
        if (ink >= 0) rects.add(ink, Math.round(left) + from, y, pixel - from, height);
        ink = here;
        from = pixel;
      }
      if (pixel <= high) {
        cover[pixel] = 0;
        share[pixel] = 0;
      }
    }
  }
}
