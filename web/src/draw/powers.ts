/** Axes in powers of ten: what of them is in view, where lines stand, and how they are labelled. */

import { grouped, type Scale } from "../base/numbers";

/** Powers of ten that stay in view at least. */
const CLOSEST = 0.2;

/** What is in view: powers of ten along both axes. */
export interface Powers {
  readonly x: readonly [number, number];
  readonly y: readonly [number, number];
}

export const logsOf = (values: readonly number[]): readonly number[] => values.map((value) => Math.log10(value));

/** Whole powers of ten between two, about so many at most. */
export function powers([low, high]: readonly [number, number], most: number): number[] {
  const every = Math.max(1, Math.ceil((high - low) / Math.max(1, most)));
  const found: number[] = [];
  for (let at = Math.ceil(low / every) * every + 0; at <= high; at += every) found.push(at);
  return found;
}

/** A power of ten at an axis. */
export function ticked(power: number, { label, divisor }: Scale = { label: "", divisor: 1 }): string {
  const inUnit = power - Math.round(Math.log10(divisor));
  return `${inUnit < 0 ? (10 ** inUnit).toFixed(-inUnit) : grouped(10 ** inUnit)} ${label}`.trim();
}

/** A stretch around the place at `share` of it, `by` times as long. */
export const scaled = ([low, high]: readonly [number, number], by: number, share: number): [number, number] => {
  const at = low + (high - low) * share;
  return [at - (at - low) * by, at + (high - at) * by];
};

/** What is in view stays inside of all there is; null where that is all. */
export function within(whole: Powers, wanted: Powers): Powers | null {
  const [x, y] = (["x", "y"] as const).map((axis) => {
    const [low, high] = whole[axis];
    const length = Math.min(high - low, Math.max(CLOSEST, wanted[axis][1] - wanted[axis][0]));
    const from = Math.max(low, Math.min(high - length, wanted[axis][0]));
    return [from, from + length] as const;
  }) as [Powers["x"], Powers["y"]];
  const all = (axis: "x" | "y", [from, to]: Powers["x"]) => to - from >= whole[axis][1] - whole[axis][0] - 1e-9;
  return all("x", x) && all("y", y) ? null : { x, y };
}
