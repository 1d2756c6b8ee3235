/** Keys of the page and of its views, with words for each: `?` lists them. */

import { useEffect, useRef } from "preact/hooks";
import { bindingOf, type Bound, enter, type Keys, leave, type Scope } from "./scopes";

/**
 * Keys that hold while a component stands: `w`, `Shift+N`, `Escape`, `/`, `[`. The innermost scope wins, in it the
 * component that came last; that one of them is drawn again changes nothing.
 */
export function useKeys(keys: Keys, title = "", scope: Scope = "view"): void {
  const mine = useRef<Bound | undefined>(undefined);
  useEffect(() => {
    const entered = enter(title, scope, keys);
    mine.current = entered;
    return () => leave(entered);
  }, [title, scope]);
  useEffect(() => {
    if (mine.current) mine.current.keys = keys;
  });
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
