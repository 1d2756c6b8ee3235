/** What can be written next in a query: tables, the columns of those that it names, words of SQL. Pure text. */

import type { SqlTable } from "../api/answers";

export interface Proposal {
  readonly word: string;
  /** What it is: of a column its table, its unit, what it means. */
  readonly about: string;
}

const WORDS =
  "SELECT FROM WHERE GROUP BY ORDER BY DESC ASC LIMIT HAVING JOIN LEFT JOIN ON AS AND OR NOT IN LIKE BETWEEN IS NULL CASE WHEN THEN ELSE END WITH DISTINCT count(*) sum( avg( min( max( round( abs(".split(
    " ",
  );
const MOST = 8;

/** The word that the caret is behind: where it begins, and the table before its dot, if it has one. */
export function wordAt(
  text: string,
  caret: number,
): { readonly from: number; readonly word: string; readonly of: string } {
  const [word = ""] = /[A-Za-z_][A-Za-z0-9_]*$|$/.exec(text.slice(0, caret)) ?? [];
  const from = caret - word.length;
  const [, of = ""] = /([A-Za-z_][A-Za-z0-9_]*)\.$/.exec(text.slice(0, from)) ?? [];
  return { from, word, of };
}

/** The tables that a query names, and their short names: `FROM kernels k` is kernels for k. */
function named(text: string, tables: readonly SqlTable[]): Map<string, SqlTable> {
  const found = new Map<string, SqlTable>();
  for (const [, name = "", alias = ""] of text.matchAll(
    /\b(?:from|join|,)\s+([a-z_]+)(?:\s+(?:as\s+)?([a-z_]\w*))?/gi,
  )) {
    const table = tables.find((one) => one.name === name.toLowerCase());
    if (!table) continue;
    found.set(table.name, table);
    if (alias && !WORDS.includes(alias.toUpperCase())) found.set(alias, table);
  }
  return found;
}

/** Proposals for the word at the caret, the likeliest first; none inside a text or before a letter was typed. */
export function proposals(text: string, caret: number, tables: readonly SqlTable[]): Proposal[] {
  const { from, word, of } = wordAt(text, caret);
  const before = text.slice(0, from);
  if ((!word && !of) || (before.match(/'/g)?.length ?? 0) % 2 || /--[^\n]*$/.test(before)) return [];
  const from_tables = named(text, tables);
  const own = of ? [from_tables.get(of)].filter((one) => one !== undefined) : [...new Set(from_tables.values())];
  const columns = own.flatMap((table) =>
    table.columns.map(({ name, doc, unit }) => ({
      word: name,
      about: `${table.name}${unit ? ` (${unit})` : ""}: ${doc}`,
    })),
  );
  const whole = /\b(?:from|join)\s+$/i.test(before);
  const names = tables.map(({ name, doc }) => ({ word: name, about: doc }));
  const rest = of ? [] : [...names, ...WORDS.map((each) => ({ word: each, about: "" }))];
  const start = word.toLowerCase();
  const seen = new Set<string>();
  return (whole ? names : [...columns, ...rest])
    .filter(({ word: each }) => each.toLowerCase().startsWith(start) && each.toLowerCase() !== start)
    .filter(({ word: each }) => !seen.has(each) && seen.add(each))
    .slice(0, MOST);
}
