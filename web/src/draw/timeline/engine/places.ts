/** Between the address, the server's answers and the picture: what is shown at first, spans as text, an event's mark. */

import { numbersOf, timeRangeOf, timeRangeText } from "../../../base/ranges";
import { type Arrangement, arrangementFrom, keyOf, PLAIN } from "./arrange";
import type { EventDetails, TimelineLanes } from "../../../api/answers";
import type { Mark, Span } from "./types";
import { fitted } from "./view";

/** An event, as the address names it. */
export interface Chosen {
  readonly rank: number;
  readonly row: number;
}

/** Folded at first: what the server says, replays of graphs, counters but the first, and of several ranks each. */
export function startOf(lanes: TimelineLanes): Arrangement {
  const folded = new Set<string>();
  for (const { rank, groups } of lanes.ranks) {
    if (lanes.ranks.length > 1) folded.add(keyOf.rank(rank));
    for (const group of groups) {
      for (const lane of group.lanes) if (lane.slices !== null) folded.add(keyOf.lane(rank, lane.id));
      if (!group.collapsed && !(group.kind === "counter" && group.lanes.length > 2)) continue;
      folded.add(keyOf.group(rank, group.id));
      if (group.lanes.length === 1 && group.kind !== "counter")
        for (const lane of group.lanes) folded.add(keyOf.lane(rank, lane.id));
    }
  }
  return { ...PLAIN, folded };
}

/** As the address has it. */
export const arrangementOf = (lanes: TimelineLanes, params: Readonly<Record<string, string>>): Arrangement =>
  arrangementFrom(lanes, params, startOf(lanes));

/** Measures of a long address. */
const MOST = 1000;

export const measuresOf = (text: string | undefined): Span[] =>
  (text ?? "")
    .split(",")
    .slice(0, MOST)
    .flatMap((part) => spanOf(part) ?? []);

/** What is shown at first: as the address says, else the selected range or steps, else what the server proposes. */
export function startView(
  lanes: TimelineLanes,
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
  return lanes.home ? fitted(lanes.home, lanes, 0.03) : null;
}

/** From the first to the last of the steps chosen, null if none is. */
export function stepsSpan(lanes: TimelineLanes, steps: string | undefined): Span | null {
  const wanted = steps && steps !== "steady" ? numbersOf(steps) : null;
  return wanted && extent((lanes.ranks[0]?.steps ?? []).filter((step) => wanted.has(Number(step.step))));
}

const extent = (steps: readonly Span[]): Span | null =>
  steps.length
    ? { start: Math.min(...steps.map(({ start }) => start)), end: Math.max(...steps.map(({ end }) => end)) }
    : null;

/** The event at the other end of an arrow of an event: what follows from it, or its cause; null where there is none. */
export function along(facts: EventDetails, way: "next" | "previous"): number | null {
  const { row, arrows } = facts;
  const after = arrows.filter(({ start, end }) => start.row === row && end.row !== row).map(({ end }) => end.row);
  const before = arrows.filter(({ start, end }) => end.row === row && start.row !== row).map(({ start }) => start.row);
  const rows =
    way === "next" ? [...facts.launched, ...after, facts.backward] : [facts.launched_by, ...before, facts.forward];
  return rows.find((one) => one != null) ?? null;
}

export function markOf(lanes: TimelineLanes, { rank, row }: Chosen, facts: EventDetails): Mark {
  const offset = lanes.ranks.find((one) => one.rank === rank)?.offset ?? 0;
  return {
    rank,
    row,
    lane: facts.lane ?? "",
    depth: facts.depth,
    count: 1,
    kind: facts.kind,
    name: facts.name,
    start: facts.start + offset,
    end: facts.end + offset,
    cut: false,
  };
}

export const within = (view: Span, lanes: TimelineLanes): Span => ({
  start: Math.max(lanes.start, view.start),
  end: Math.min(lanes.end, view.end),
});

/** A displayed range as the rank's own clock has it, from its first event on. */
export function ownTime(lanes: TimelineLanes, rank: number, span: Span): Span {
  const offset = lanes.ranks.find((one) => one.rank === rank)?.offset ?? 0;
  return { start: Math.max(0, span.start - offset), end: Math.max(0, span.end - offset) };
}

/** `a-b` in ns, as the address has it. */
export function spanOf(text: string | undefined): Span | null {
  const range = timeRangeOf(text);
  return range && { start: range[0], end: range[1] };
}

export const textOf = (span: Span): string => timeRangeText(span.start, span.end);
