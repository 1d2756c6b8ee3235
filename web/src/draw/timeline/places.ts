/** Between the address, the server's answers and the picture: what is shown at first, spans as text, an event's mark. */

import { numbersOf } from "../../frame/ranges";
import { type Arrangement, keyOf, PLAIN } from "./layout";
import type { EventFacts, Lanes, Mark, Span } from "./types";
import { fitted } from "./view";

/** An event, as the address names it. */
export interface Chosen {
  readonly rank: number;
  readonly row: number;
}

/** Folded at first: what the server says, and counters but the first. */
export function startOf(lanes: Lanes): Arrangement {
  const folded = new Set<string>();
  for (const { rank, groups } of lanes.ranks) {
    for (const group of groups) {
      if (!group.collapsed && !(group.kind === "counter" && group.lanes.length > 2)) continue;
      folded.add(keyOf.group(rank, group.id));
      if (group.lanes.length === 1) for (const lane of group.lanes) folded.add(keyOf.lane(rank, lane.id));
    }
  }
  return { ...PLAIN, folded };
}

/** Of a run of more steps, a few in its middle are shown at first. */
const MANY_STEPS = 24;
const FEW_STEPS = 3;

/** What is shown at first: as the address says, else the selected range or steps, else all, or a few steps of many. */
export function startView(
  lanes: Lanes,
  params: Readonly<Record<string, string>>,
  time: string | undefined,
  steps: string | undefined,
): Span | null {
  const asked = spanOf(params["in"] ?? params["view"]);
  if (asked) return asked;
  const range = spanOf(time);
  if (range) return fitted(range, lanes);
  const chosen = stepsSpan(lanes, steps);
  if (chosen) return fitted(chosen, lanes, 0.03);
  const all = lanes.ranks[0]?.steps ?? [];
  const middle = Math.floor((all.length - FEW_STEPS) / 2);
  const few = all.length > MANY_STEPS ? extent(all.slice(middle, middle + FEW_STEPS)) : null;
  return few && fitted(few, lanes, 0.03);
}

/** From the first to the last of the steps chosen, null if none is. */
export function stepsSpan(lanes: Lanes, steps: string | undefined): Span | null {
  const wanted = steps ? numbersOf(steps) : null;
  return wanted && extent((lanes.ranks[0]?.steps ?? []).filter((step) => wanted.has(Number(step.step))));
}

const extent = (steps: readonly Span[]): Span | null =>
  steps.length
    ? { start: Math.min(...steps.map(({ start }) => start)), end: Math.max(...steps.map(({ end }) => end)) }
    : null;

export function markOf(lanes: Lanes, { rank, row }: Chosen, facts: EventFacts): Mark {
  const offset = lanes.ranks.find((one) => one.rank === rank)?.offset ?? 0;
  return {
    rank,
    row,
    lane: facts.lane,
    depth: facts.depth ?? 0,
    count: 1,
    kind: facts.kind ?? "other",
    name: facts.name,
    start: facts.start + offset,
    end: facts.end + offset,
    cut: false,
  };
}

export const within = (view: Span, lanes: Lanes): Span => ({
  start: Math.max(lanes.start, view.start),
  end: Math.min(lanes.end, view.end),
});

/** A displayed range as the rank's own clock has it, from its first event on. */
export function ownTime(lanes: Lanes, rank: number, span: Span): Span {
  const offset = lanes.ranks.find((one) => one.rank === rank)?.offset ?? 0;
  return { start: Math.max(0, span.start - offset), end: Math.max(0, span.end - offset) };
}

/** `a-b` in ns, as the address has it. */
export function spanOf(text: string | undefined): Span | null {
  const parts = /^(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)$/.exec(text ?? "");
  const [start, end] = [Number(parts?.[1]), Number(parts?.[2])];
  return parts && end > start ? { start, end } : null;
}

export const textOf = (span: Span): string => `${Math.round(span.start)}-${Math.round(span.end)}`;
