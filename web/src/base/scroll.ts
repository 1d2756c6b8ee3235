/** Back and forward lead to where the page was scrolled to: views come later than the browser would wait for them. */

import { parsed } from "./url";

const PATIENCE = 8000;
const EVERY = 60;
/** So many times in a row it was where it should be. */
const SURE = 12;

/** How far each entry of the history was scrolled. */
const places = new Map<number, number>();
const entry = (): number | undefined => (history.state as { entry?: number } | null)?.entry;

export function rememberScroll(): void {
  let now = 0;
  let seen = parsed(location.hash);
  let timer: ReturnType<typeof setInterval> | undefined;
  const stop = () => clearInterval(timer);
  const begin = () => {
    now = Date.now() + Math.random();
    try {
      history.replaceState({ entry: now }, "");
    } catch {
      // A frame without an origin has no history of its own.
    }
  };
  const restore = (to: number) => {
    const until = performance.now() + PATIENCE;
    let there = 0; // The view that is left may reach as far down.
    stop();
    timer = setInterval(() => {
      there = Math.abs(scrollY - to) < 2 ? there + 1 : 0;
      if (there > SURE || performance.now() > until) stop();
      else scrollTo(0, to);
    }, EVERY);
  };
  history.scrollRestoration = "manual";
  if (entry() === undefined) begin();
  else now = entry() as number;
  // As soon as the address is another one, it is no longer this entry that is scrolled.
  addEventListener("scroll", () => entry() === now && places.set(now, scrollY), { passive: true });
  for (const by of ["wheel", "pointerdown", "keydown", "touchstart"]) addEventListener(by, stop, { passive: true });
  addEventListener("hashchange", () => {
    const before = seen;
    seen = parsed(location.hash);
    const known = entry();
    if (known !== undefined && known !== now) {
      now = known;
      restore(places.get(now) ?? 0);
    } else if (known === undefined) {
      begin();
      stop();
      if (before.view !== seen.view || before.run !== seen.run) scrollTo(0, 0);
    }
  });
}
