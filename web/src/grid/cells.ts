/** How the values of a column are shown: one unit for all of them, said in its head. */

import type { Column } from "../api/answers";
import { grouped, inScale, instant, MISSING, significant, type Scale } from "../base/numbers";
import { anything } from "../base/text";

/** Numbers that name something are not grouped: thread 12345 is not 12 345 of anything. As views/terminal/columns.py. */
const NAMES_SOMETHING = new Set([
  "rank",
  "device",
  "stream",
  "step",
  "pid",
  "tid",
  "thread",
  "correlation",
  "row",
  "line",
]);

export interface Shown {
  readonly column: Column;
  /** Of the numbers; "" for text and plain counts. */
  readonly unit: string;
  readonly number: boolean;
  readonly text: (value: unknown) => string;
}

export const isNumber = (column: Column): boolean => /^(U?Int|Float|Decimal)/.test(column.dtype);

export function shownAs(column: Column, scale: Scale | undefined, short: Readonly<Record<string, string>> = {}): Shown {
  const by = scale ?? { label: "", divisor: 1 };
  const number = isNumber(column);
  const named = (value: unknown) => anything(typeof value === "string" ? (short[value] ?? value) : value);
  return { column, number, unit: number ? by.label : "", text: number ? numberText(column, by) : named };
}

function numberText(column: Column, by: Scale): (value: unknown) => string {
  const of = numberShown(column, by);
  const shown = (value: number) => of(value).replace(/^(>?)-/, "$1−"); // as sentences have it
  return (value) => {
    if (typeof value === "number") return shown(value);
    // Whole numbers that JavaScript cannot hold come as text.
    if (typeof value !== "string" || !/^-?\d+$/.test(value)) return MISSING;
    return by.divisor === 1 ? value.replace(/\B(?=(\d{3})+$)/g, ",") : shown(Number(value));
  };
}

function numberShown(column: Column, by: Scale): (value: number) => string {
  if (NAMES_SOMETHING.has(column.name) && !column.unit) return String;
  if (column.instant) return (value) => instant(by, value);
  if (column.dtype.startsWith("Float")) return (value) => significant(value / by.divisor);
  return by.divisor === 1 ? grouped : (value) => inScale(by, value);
}

/** The name of a column in words. */
export const inWords = (name: string): string => name.replaceAll("_", " ");
