/** Rows as a table of Markdown: numbers as the page shows them, units in the head. */

import type { TableAnswer } from "../api/answers";
import { inWords, shownAs } from "./cells";

/** What would end a cell, a row or be read as markup. */
const escaped = (text: string): string => text.replace(/[\\|`*_<>[\]]/g, "\\$&");

export function markdown(head: Pick<TableAnswer, "columns" | "rows" | "scales">, names: readonly string[]): string {
  const shown = names
    .map((name) => head.columns.find((column) => column.name === name))
    .flatMap((column) => (column ? [shownAs(column, head.scales[column.name])] : []));
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |\n`;
  const titles = shown.map(({ column, unit }) => escaped(inWords(column.name)) + (unit ? ` (${unit})` : ""));
  const rows = head.rows.map((row) =>
    line(shown.map(({ column, text }) => escaped(text(row[head.columns.indexOf(column)])))),
  );
  return line(titles) + line(shown.map(({ number }) => (number ? "--:" : "---"))) + rows.join("");
}
