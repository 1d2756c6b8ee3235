/** The window of time in view: pure arithmetic of panning and zooming. */

import type { Span } from "./types";

export const NARROWEST = 50;

/** A little of nothing is left before the first event and after the last. */
const MARGIN = 0.02;

export function limits(whole: Span): Span {
  const margin = Math.max(1, (whole.end - whole.start) * MARGIN);
  return { start: whole.start - margin, end: whole.end + margin };
}

/** The window moved (and, if it is too wide or too narrow, resized) to lie within what there is. */
export function clamp(view: Span, whole: Span): Span {
  const all = limits(whole);
  const most = all.end - all.start;
  if (!Number.isFinite(view.start + view.end)) return all;
  const width = Math.min(most, Math.max(Math.min(NARROWEST, most), view.end - view.start));
  const middle = (view.start + view.end) / 2;
  let start = view.end - view.start === width ? view.start : middle - width / 2;
  start = Math.min(Math.max(start, all.start), all.end - width);
  return { start, end: start + width };
}

/** `factor` < 1 zooms in; the instant `at` keeps its place. */
export function zoomed(view: Span, at: number, factor: number, whole: Span): Span {
  const width = view.end - view.start;
  const all = limits(whole);
  const wanted = Math.min(all.end - all.start, Math.max(NARROWEST, width * factor));
  const share = (at - view.start) / width;
  const start = at - share * wanted;
  return clamp({ start, end: start + wanted }, whole);
}

export function panned(view: Span, by: number, whole: Span): Span {
  return clamp({ start: view.start + by, end: view.end + by }, whole);
}

/** A window that shows all of `span`, with room at both sides. */
export function fitted(span: Span, whole: Span, room = 0.15): Span {
  const width = Math.max(NARROWEST, span.end - span.start);
  return clamp({ start: span.start - width * room, end: span.end + width * room }, whole);
}

/** A window of the same width that shows the middle of `span`; wider if it does not fit, far narrower marks are zoomed to. */
export function shown(view: Span, span: Span, whole: Span): Span {
  const width = view.end - view.start;
  const long = span.end - span.start;
  if (long > width || long < width / 300) return fitted(span, whole, long > width ? 0.15 : 20);
  if (span.start >= view.start && span.end <= view.end) return view;
  const middle = (span.start + span.end) / 2;
  return clamp({ start: middle - width / 2, end: middle + width / 2 }, whole);
}

/** A window of the same width with an instant in its middle. */
export function centred(view: Span, at: number, whole: Span): Span {
  const half = (view.end - view.start) / 2;
  return clamp({ start: at - half, end: at + half }, whole);
}

/** The step before or after the middle of the window. */
export function stepBeside<T extends Span>(steps: readonly T[], view: Span, by: 1 | -1): T | null {
  if (!steps.length) return null;
  const middle = (view.start + view.end) / 2;
  let at = steps.findIndex((step) => step.end > middle);
  if (at < 0) at = steps.length;
  const inside = at < steps.length && (steps[at]?.start ?? 0) <= middle;
  const wanted = by > 0 ? (inside ? at + 1 : at) : at - 1;
  return steps[Math.min(steps.length - 1, Math.max(0, wanted))] ?? null;
}

/** From `now` towards `target`, after `ms` milliseconds; the target itself when the rest is not to be seen. */
export function eased(now: Span, target: Span, ms: number): Span {
  const share = 1 - Math.exp(-ms / 55);
  const start = now.start + (target.start - now.start) * share;
  const end = now.end + (target.end - now.end) * share;
  const width = target.end - target.start;
  const near = Math.abs(start - target.start) < width / 4000 && Math.abs(end - target.end) < width / 4000;
  return near ? target : { start, end };
}
