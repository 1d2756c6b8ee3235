/** How the values of a column are shown: one unit for all of them, said in its head. */

import type { Column } from "../api/types";
import { grouped, inScale, instant, MISSING, significant, type Scale } from "../base/numbers";
import { anything } from "../base/text";

/** Numbers that name something are not grouped: thread 12345 is not 12 345 of anything. As views/columns.py. */
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

export function shownAs(column: Column, scale: Scale | undefined): Shown {
  const by = scale ?? { label: "", divisor: 1 };
  const number = isNumber(column);
  return { column, number, unit: number ? by.label : "", text: number ? numberText(column, by) : anything };
}

function numberText(column: Column, by: Scale): (value: unknown) => string {
  const missing = (value: unknown): value is null => typeof value !== "number";
  if (NAMES_SOMETHING.has(column.name) && !column.unit) return (value) => (missing(value) ? MISSING : String(value));
  if (column.instant) return (value) => (missing(value) ? MISSING : instant(by, value as number));
  if (column.dtype.startsWith("Float"))
    return (value) => (missing(value) ? MISSING : significant((value as number) / by.divisor));
  if (by.divisor === 1) return (value) => (missing(value) ? MISSING : grouped(value as number));
  return (value) => (missing(value) ? MISSING : inScale(by, value as number));
}

/** The name of a column in words. */
export const inWords = (name: string): string => name.replaceAll("_", " ");
