/** The state of the page is its hash: `#/run/view?rank=0&steps=3-5&time=a-b&base=run&p.x=…&t.operators.sort=…`. */

import { useEffect, useState } from "preact/hooks";

/** What of a run is looked at, as text; what is not there selects everything. */
export interface Select {
  readonly rank?: string;
  readonly ranks?: string;
  readonly cycle?: string;
  readonly steps?: string;
  readonly time?: string;
  readonly device?: string;
  readonly stream?: string;
  readonly thread?: string;
  readonly annotation?: string;
  readonly name?: string;
  readonly under?: string;
  readonly before?: string;
  readonly after?: string;
  readonly steps_by?: string;
}

export const SELECT = [
  "rank",
  "ranks",
  "cycle",
  "steps",
  "time",
  "device",
  "stream",
  "thread",
  "annotation",
  "name",
  "under",
  "before",
  "after",
  "steps_by",
] as const;

export interface State {
  readonly run: string;
  readonly view: string;
  readonly base: string;
  readonly select: Select;
  /** Of the view: `p.` in the hash. */
  readonly params: Readonly<Record<string, string>>;
  /** Of tables: `t.` in the hash. */
  readonly tables: Readonly<Record<string, string>>;
}

/** What of the state becomes another; null or "" removes. */
export interface Change {
  readonly run?: string;
  readonly view?: string;
  readonly base?: string;
  readonly select?: { readonly [key in keyof Select]?: string | null };
  readonly params?: Readonly<Record<string, string | null>>;
  readonly tables?: Readonly<Record<string, string | null>>;
}

export function parsed(hash: string): State {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const [run = "", view = ""] = path.split("/").map(decoded);
  const select: Record<string, string> = {};
  const params: Record<string, string> = {};
  const tables: Record<string, string> = {};
  let base = "";
  for (const [key, value] of new URLSearchParams(query)) {
    if (key === "base") base = value;
    else if (key.startsWith("p.")) params[key.slice(2)] = value;
    else if (key.startsWith("t.")) tables[key.slice(2)] = value;
    else if ((SELECT as readonly string[]).includes(key)) select[key] = value;
  }
  return { run, view, base, select, params, tables };
}

export function hashOf(state: State): string {
  const pairs: [string, string][] = [];
  for (const key of SELECT) if (state.select[key]) pairs.push([key, state.select[key] as string]);
  if (state.base) pairs.push(["base", state.base]);
  for (const key of Object.keys(state.params).sort()) pairs.push([`p.${key}`, state.params[key] as string]);
  for (const key of Object.keys(state.tables).sort()) pairs.push([`t.${key}`, state.tables[key] as string]);
  return `#/${encodeURIComponent(state.run)}/${encodeURIComponent(state.view)}${queryOf(pairs)}`;
}

/** `?a=b&c=d`, "" without pairs; what needs no escape in a hash stays readable. */
export function queryOf(pairs: readonly (readonly [string, string])[]): string {
  return pairs.length
    ? `?${pairs.map(([key, value]) => `${encodeURIComponent(key)}=${encodeURIComponent(value)}`).join("&")}`
    : "";
}

/** The state after a change. Another view or run forgets the parameters and tables of the one before. */
export function changed(state: State, change: Change): State {
  const elsewhere =
    (change.view !== undefined && change.view !== state.view) || (change.run !== undefined && change.run !== state.run);
  return {
    run: change.run ?? state.run,
    view: change.view ?? state.view,
    base: change.base ?? state.base,
    select: merged(change.run !== undefined && change.run !== state.run ? {} : state.select, change.select),
    params: merged(elsewhere ? {} : state.params, change.params),
    tables: merged(elsewhere ? {} : state.tables, change.tables),
  };
}

function merged(old: object, change: Readonly<Record<string, string | null | undefined>> = {}): Record<string, string> {
  return Object.fromEntries(
    Object.entries({ ...old, ...change }).filter((pair): pair is [string, string] => !!pair[1]),
  );
}

/** The same selection of a rank: the first one where none is chosen. */
export const ofOneRank = (select: Select, rank: number | undefined): Select =>
  select.rank || select.ranks || rank === undefined ? select : { ...select, rank: String(rank) };

/** The same selection of the ranks that a page is about. */
export function ofRanks({ rank: _, ranks: __, ...others }: Select, ranks: Readonly<Record<string, string>>): Select {
  return { ...others, ...ranks };
}

/** The state, kept with the address. */
export function useUrl(): State {
  const [hash, set] = useState(location.hash);
  useEffect(() => {
    const read = () => set(location.hash);
    addEventListener("hashchange", read);
    addEventListener("popstate", read);
    read(); // the address may have changed since the first render
    return () => {
      removeEventListener("hashchange", read);
      removeEventListener("popstate", read);
    };
  }, []);
  return parsed(hash);
}

export function go(change: Change, { replace = false } = {}): void {
  const hash = hashOf(changed(parsed(location.hash), change));
  if (hash === location.hash) return;
  if (replace) {
    replaceHash(hash);
    dispatchEvent(new PopStateEvent("popstate"));
  } else location.hash = hash;
}

/** The address without another entry in the history. A frame without an origin may not do that: it gets an entry. */
export function replaceHash(hash: string): void {
  try {
    history.replaceState(history.state, "", hash);
  } catch {
    location.hash = hash;
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
