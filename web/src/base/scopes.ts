/** Whose keys hold: those of the page, of the view in it, of an instrument in that. */

export interface Key {
  readonly does: string;
  readonly run: (event: KeyboardEvent) => void;
}

export type Keys = Readonly<Record<string, Key | ((event: KeyboardEvent) => void)>>;

/** Whose keys: of the page, of the view in it, of an instrument or a dialog in that. The innermost one wins. */
export type Scope = "page" | "view" | "instrument";

const DEPTH: Readonly<Record<Scope, number>> = { page: 0, view: 1, instrument: 2 };

export interface Bound {
  readonly title: string;
  readonly scope: Scope;
  keys: Keys;
}

const bound: Bound[] = [];

/** Keys that hold from now on. */
export function enter(title: string, scope: Scope, keys: Keys): Bound {
  const entered: Bound = { title, scope, keys };
  bound.push(entered);
  return entered;
}

export function leave(entered: Bound): void {
  bound.splice(bound.indexOf(entered), 1);
}

/** What a key does now; undefined: nothing. */
export function bindingOf(name: string): Keys[string] | undefined {
  const innermost = bound
    .map((each, at) => ({ ...each, at }))
    .sort((a, b) => DEPTH[b.scope] - DEPTH[a.scope] || b.at - a.at);
  for (const { keys } of innermost) {
    const what = keys[name] ?? keys[name.length === 1 ? name.toLowerCase() : name];
    if (what) return what;
  }
  return undefined;
}

/** What can be pressed now: titles, keys and what they do. */
export function listed(): { title: string; keys: [string, string][] }[] {
  const found = new Map<string, [string, string][]>();
  for (const { title, keys } of bound)
    for (const [key, what] of Object.entries(keys))
      if (typeof what !== "function" && what.does) found.set(title, [...(found.get(title) ?? []), [key, what.does]]);
  return [...found].map(([title, keys]) => ({ title, keys }));
}
