/** Keys of the page and of its views, with words for each: `?` lists them. */

import { useEffect } from "preact/hooks";

export interface Key {
  readonly does: string;
  readonly run: (event: KeyboardEvent) => void;
}

export type Keys = Readonly<Record<string, Key | ((event: KeyboardEvent) => void)>>;

interface Bound {
  readonly title: string;
  keys: Keys;
}

const bound: Bound[] = [];

/** Keys that hold while a component stands: `w`, `Shift+N`, `Escape`, `/`, `[`. The latest bound wins. */
export function useKeys(keys: Keys, title = ""): void {
  useEffect(() => {
    const mine: Bound = { title, keys };
    bound.push(mine);
    return () => void bound.splice(bound.indexOf(mine), 1);
  });
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
  for (const { keys } of [...bound].reverse()) {
    const what = keys[name] ?? keys[name.length === 1 ? name.toLowerCase() : name];
    if (!what) continue;
    (typeof what === "function" ? what : what.run)(event);
    event.preventDefault();
    return;
  }
});
