/** Where a row of a table leads: to its event, its time, its step, its line of source. */

import type { Link } from "../api/blocks";
import type { Column, TableAnswer } from "../api/answers";

/** Names of columns, by what they tell: row, start, end, rank, step, file, line, name. */
export type Places = Readonly<Record<string, string>>;

/** What the columns of an analysis tell by their names, where the page says nothing. */
export function usualPlaces(columns: readonly Column[]): Places {
  const names = new Set(columns.map((column) => column.name));
  const instants = columns.filter((column) => column.instant).map((column) => column.name);
  const found: Record<string, string> = {};
  for (const name of ["row", "file", "line", "rank"]) if (names.has(name)) found[name] = name;
  if (instants[0]) found["start"] = instants[0];
  if (instants[1]) found["end"] = instants[1];
  if (!found["row"] && !found["start"] && names.has("step")) found["step"] = "step";
  return found;
}

const AROUND = 0.5;

/** The number in a column of this name, whatever the page says that columns tell. */
function named(row: readonly unknown[], head: TableAnswer, name: string): number | null {
  const found = row[head.columns.findIndex((column) => column.name === name)];
  return typeof found === "number" ? found : null;
}

/** Those that JavaScript cannot hold come as text. */
const wholeNumber = (value: unknown): value is number | string =>
  Number.isInteger(value) || (typeof value === "string" && /^-?\d+$/.test(value));

/**
 * The link of a row; null if it tells no place.
 *
 * `origin` is what the clock of the file showed at the time 0 of the page: instants of a query count by that clock.
 */
export function linkOf(row: readonly unknown[], head: TableAnswer, places: Places, origin = "0"): Partial<Link> | null {
  const value = (what: string): unknown => {
    const name = places[what];
    return name === undefined ? undefined : row[head.columns.findIndex((column) => column.name === name)];
  };
  const number = (what: string): number | null => {
    const found = value(what);
    return typeof found === "number" ? found : null;
  };
  const instant = (what: string): number | null => {
    const found = value(what);
    return wholeNumber(found) ? Number(BigInt(found) - BigInt(origin)) : null;
  };
  const [event, start, end] = [number("row"), instant("start"), instant("end")];
  const [step, line] = [number("step"), number("line")];
  const [rank, cycle] = [number("rank") ?? named(row, head, "rank"), named(row, head, "cycle")];
  const at = { ...(rank === null ? {} : { rank }), ...(cycle === null ? {} : { cycle }) };
  const file = value("file");
  if (event !== null || start !== null) {
    const wide = start !== null && end !== null ? Math.max(1000, (end - start) * AROUND) : 0;
    const time =
      start === null
        ? {}
        : { time: [Math.max(0, start - (wide || 50_000)), (end ?? start) + (wide || 50_000)] as const };
    return { view: "timeline", ...at, ...time, ...(event === null ? {} : { row: event }) };
  }
  if (typeof file === "string" && file) return { view: "sources", file, line: line ?? 0 };
  if (step !== null) return { ...at, steps: String(step) };
  const name = value("name");
  if (typeof name === "string" && name) return { view: "timeline", ...at, params: { q: name } };
  return places["rank"] && rank !== null && Object.keys(places).length === 1 ? at : null;
}

/** Where a link leads that leaves the view. */
export function wordsOf({ view, params, file }: Partial<Link>): string {
  if (view === "sources" || file) return "Show the source";
  return params?.["q"] ? "Search the timeline for it" : "Show it on the timeline";
}
