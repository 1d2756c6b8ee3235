/** How far a run is while it goes on: the server says when there are more rows; where it cannot, it is asked. */

import { useEffect, useState } from "preact/hooks";
import type { HistoryState } from "./answers";
import { api, runPath } from "./client";

const POLL = 2000;
const LEAST = 1000;

/** Its state, renewed when there is more; undefined until it is known, and in a report. */
export function useLive(run: string): HistoryState | undefined {
  const [state, set] = useState<{ run: string; said: HistoryState; at: number }>();
  useEffect(() => {
    if (api.embedded) return;
    let [gone, busy, again, last] = [false, false, false, 0];
    let timer = 0;
    const ask = async () => {
      if (busy) {
        again = true;
        return;
      }
      busy = true;
      again = false;
      last = performance.now();
      try {
        const said = await api.json<HistoryState>(runPath(run, "history"));
        if (!gone) set({ run, said, at: last });
        if (said.reading) again = true;
      } catch {
        // The page itself says when the server is away.
      }
      busy = false;
      if (again && !gone) timer = window.setTimeout(() => void ask(), Math.max(0, LEAST - (performance.now() - last)));
    };
    void ask();
    let polling = 0;
    const poll = () =>
      (polling ||= window.setInterval(() => document.visibilityState === "visible" && void ask(), POLL));
    let source: EventSource | undefined;
    try {
      source = new EventSource(`api/${runPath(run, "history", "events")}`);
      source.onmessage = () => void ask();
      source.onopen = () => (polling = (window.clearInterval(polling), 0));
      source.onerror = () => void poll();
    } catch {
      poll();
    }
    return () => {
      gone = true;
      source?.close();
      window.clearInterval(polling);
      window.clearTimeout(timer);
    };
  }, [run]);
  return state?.run === run ? state.said : undefined;
}
