/** Keys of the page and of its views, with words for each: `?` lists them. */

import { useEffect, useRef } from "preact/hooks";

export interface Key {
  readonly does: string;
  readonly run: (event: KeyboardEvent) => void;
}

export type Keys = Readonly<Record<string, Key | ((event: KeyboardEvent) => void)>>;

/** Whose keys: of the page, of the view in it, of an instrument or a dialog in that. The innermost one wins. */
export type Scope = "page" | "view" | "instrument";

const DEPTH: Readonly<Record<Scope, number>> = { page: 0, view: 1, instrument: 2 };

interface Bound {
  readonly title: string;
  readonly scope: Scope;
  keys: Keys;
}

const bound: Bound[] = [];

/**
 * Keys that hold while a component stands: `w`, `Shift+N`, `Escape`, `/`, `[`. The innermost scope wins, in it the
 * component that came last; that one of them is drawn again changes nothing.
 */
export function useKeys(keys: Keys, title = "", scope: Scope = "view"): void {
  const mine = useRef<Bound | undefined>(undefined);
  useEffect(() => {
    const entered: Bound = { title, scope, keys };
    mine.current = entered;
    bound.push(entered);
    return () => void bound.splice(bound.indexOf(entered), 1);
  }, [title, scope]);
  useEffect(() => {
    if (mine.current) mine.current.keys = keys;
  });
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

export function typing(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing(event.target) && event.key !== "Escape") return;
  const name = event.shiftKey && /^[A-Za-z]$/.test(event.key) ? `Shift+${event.key.toUpperCase()}` : event.key;
  const what = bindingOf(name);
  if (!what) return;
  (typeof what === "function" ? what : what.run)(event);
  event.preventDefault();
});
