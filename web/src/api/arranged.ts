/** Order, search and windows of rows that are here already: in a report, and in tables that a page made itself. */

import type { Query } from "./transport";
import type { TableAnswer } from "./answers";

/** `kept` as a server would answer for this search, order and window. */
export function arranged(kept: TableAnswer, query: Query): TableAnswer {
  let rows = [...kept.rows];
  const search = String(query["search"] ?? "").toLowerCase();
  const [, column = "", operation = "", bound = ""] = /^(\w+):(eq|ne|lt|le|gt|ge):(-?[\d.]+)$/.exec(search) ?? [];
  const filtered = kept.columns.findIndex((each) => each.name === column);
  if (filtered >= 0) rows = rows.filter((row) => holds(row[filtered], operation, Number(bound)));
  else if (search)
    rows = rows.filter((row) => row.some((cell) => typeof cell === "string" && cell.toLowerCase().includes(search)));
  const sort = String(query["sort"] ?? "");
  const place = kept.columns.findIndex((column) => column.name === sort.replace(/^-/, ""));
  if (place >= 0) {
    const sign = sort.startsWith("-") ? -1 : 1;
    rows.sort((a, b) => compared(a[place], b[place], sign));
  }
  const offset = Number(query["offset"] ?? 0);
  const cut = kept.rows.length < kept.total;
  const notes = cut ? [...kept.notes, `This report keeps ${kept.rows.length} of ${kept.total} rows.`] : kept.notes;
  return { ...kept, rows: rows.slice(offset, offset + Number(query["limit"])), total: rows.length, notes };
}

function holds(value: unknown, operation: string, bound: number): boolean {
  if (typeof value !== "number") return false;
  const sign = Math.sign(value - bound);
  return (
    { eq: sign === 0, ne: sign !== 0, lt: sign < 0, le: sign <= 0, gt: sign > 0, ge: sign >= 0 }[operation] ?? false
  );
}

/** What is missing comes last in either direction. */
function compared(a: unknown, b: unknown, sign: number): number {
  if (a == null || b == null) return a == null ? (b == null ? 0 : 1) : -1;
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b));
}
