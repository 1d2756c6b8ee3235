/** Step times of a run at a scale: tiles of 256 buckets of a power of four of steps, and what stands in for missing ones. */

import type { History } from "../../api/blocks";
import type { HistoryTile } from "../../api/answers";
import { shown } from "../../base/numbers";

export const BUCKETS = 256;
const STRIDE = 4;
const MAX_SCALE = 12;

/** Steps in view: from one to before another, as fractions while it moves. */
export interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** Buckets of one size that follow each other, drawn from `from` to before `to`. */
export interface Piece extends Stretch {
  readonly buckets: HistoryTile;
}

/** The scale at which a bucket is about two px wide, or the largest that is narrower. */
export function scaleFor(view: Stretch, px: number): number {
  let scale = 0;
  while (scale < MAX_SCALE && (view.to - view.from) / STRIDE ** scale > px / 1.5) scale++;
  return scale;
}

export const stepsOfTile = (scale: number): number => BUCKETS * STRIDE ** scale;

/** Numbers of the tiles of a scale that are in view. */
export function tilesIn(view: Stretch, scale: number): number[] {
  const wide = stepsOfTile(scale);
  const first = Math.max(0, Math.floor(view.from / wide));
  const last = Math.max(first, Math.ceil(view.to / wide) - 1);
  return Array.from({ length: last - first + 1 }, (_, place) => first + place);
}

/** What is drawn: the tiles of the scale; where one is missing, a coarser one, else the overview. */
export function piecesOf(
  view: Stretch,
  scale: number,
  tile: (scale: number, number: number) => HistoryTile | undefined,
  whole: HistoryTile | null,
): Piece[] {
  return tilesIn(view, scale).flatMap((number) => {
    const [from, to] = [number * stepsOfTile(scale), (number + 1) * stepsOfTile(scale)];
    for (let coarser = scale; coarser <= MAX_SCALE; coarser++) {
      const found = tile(coarser, Math.floor(from / stepsOfTile(coarser)));
      if (found) return [{ from, to, buckets: found }];
    }
    return whole ? [{ from, to, buckets: whole }] : [];
  });
}

/** The buckets of a block, as a tile has them: those without a step are null. */
export function tileOf(block: History): HistoryTile | null {
  const first = block.step[0];
  const last = block.step[block.step.length - 1];
  if (first === undefined || last === undefined) return null;
  const count = Math.round((last - first) / block.size) + 1;
  const spread = <T>(values: readonly T[], none: T): T[] => {
    const all = Array.from({ length: count }, () => none);
    block.step.forEach((step, place) => (all[Math.round((step - first) / block.size)] = values[place] as T));
    return all;
  };
  return {
    size: block.size,
    first,
    fastest: spread<number | null>(block.fastest, null),
    median: spread<number | null>(block.median, null),
    slowest: spread<number | null>(block.slowest, null),
    rank: spread(block.rank, -1),
    ranks: block.ranks,
    behind: block.behind.map((row) => spread<number | null>(row, null)),
    marks: block.marks,
    whole: false,
  };
}

/** Places of a piece's buckets: the first that is in it, and the one after the last. */
export function placesIn({ from, to, buckets }: Piece): [number, number] {
  const { size, first, median } = buckets;
  return [
    Math.max(0, Math.floor((from - first) / size)),
    Math.max(0, Math.min(median.length, Math.ceil((to - first) / size))),
  ];
}

/** The bucket that a step is in. */
export function bucketAt(pieces: readonly Piece[], step: number): { piece: Piece; place: number } | null {
  const piece = pieces.find((each) => each.from <= step && step < each.to);
  if (!piece) return null;
  const place = Math.floor((step - piece.buckets.first) / piece.buckets.size);
  return place >= 0 && place < piece.buckets.median.length ? { piece, place } : null;
}

/** The view moved, or scaled about a step, within the run; the whole run where nothing is left out. */
export function moved(view: Stretch, by: number, all: Stretch): Stretch {
  const wide = view.to - view.from;
  const from = Math.min(Math.max(view.from + by, all.from), Math.max(all.from, all.to - wide));
  return { from, to: from + wide };
}

const FEWEST = 16;

export function scaled(view: Stretch, factor: number, at: number, all: Stretch): Stretch {
  const wide = Math.min(
    all.to - all.from,
    Math.max((view.to - view.from) * factor, Math.min(FEWEST, all.to - all.from)),
  );
  const share = (at - view.from) / Math.max(view.to - view.from, 1e-9);
  return moved({ from: at - share * wide, to: at - share * wide + wide }, 0, all);
}

/** Share of the typical time of a step up to which the axis goes at most. */
const ROOM = 1.6;
const TYPICAL = 0.8;

/** Least and greatest of the vertical axis: a long step does not make all others flat; it sticks out at the top. */
export function limits(pieces: readonly Piece[], view: Stretch): [number, number] {
  let [least, most] = [Infinity, 0];
  const middles: number[] = [];
  for (const piece of pieces) {
    const { fastest, median, slowest } = piece.buckets;
    const [begin, end] = placesIn({ ...piece, from: Math.max(piece.from, view.from), to: Math.min(piece.to, view.to) });
    for (let place = begin; place < end; place++) {
      least = Math.min(least, fastest[place] ?? Infinity);
      most = Math.max(most, slowest[place] ?? 0);
      middles.push(median[place] ?? NaN);
    }
  }
  const known = middles.filter((each) => each > 0).sort((one, other) => one - other);
  const typical = known[Math.floor(known.length * TYPICAL)];
  if (typical === undefined || least === Infinity) return [0, 1];
  const top = Math.min(most * 1.03, typical * ROOM);
  return [least > top * 0.4 ? least * 0.95 : 0, top];
}

const LONG = 60;

export function ageWords(seconds: number): string {
  const age = `The newest step ended ${shown(Math.max(Math.ceil(seconds), 1) * 1e9, "ns")} ago`;
  return seconds > LONG ? `${age}; no end of the run was recorded.` : `${age}.`;
}
