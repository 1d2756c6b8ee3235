/** The rows that are here as CSV, as the server writes it. */

import type { TableAnswer } from "../api/answers";

/** What a spreadsheet would run; a trace is untrusted. */
const FORMULA = /^[=+\-@\t\r]/;

export function csv(head: Pick<TableAnswer, "columns" | "rows">): string {
  const quoted = (value: unknown) => {
    const plain = value == null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    const text = typeof value === "string" && FORMULA.test(plain) && !/^-?\d+$/.test(plain) ? `'${plain}` : plain;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [head.columns.map((column) => column.name), ...head.rows]
    .map((row) => `${row.map(quoted).join(",")}\r\n`)
    .join("");
}
