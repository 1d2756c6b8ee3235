/** How far a run is while it goes on: the server says when there are more rows; where it cannot, it is asked. */

import { useEffect, useState } from "preact/hooks";
import type { HistoryState } from "./answers";
import { api, runPath } from "./client";

const POLL = 2000;
const LEAST = 1000;

/** One run that is followed, however many parts of the page show it. */
class Following {
  said: HistoryState | undefined;
  readonly heard = new Set<(said: HistoryState) => void>();
  private source: EventSource | undefined;
  private busy = false;
  private again = false;
  private timer = 0;
  private polling = 0;

  constructor(private readonly run: string) {}

  begin(): void {
    void this.ask();
    this.source = new EventSource(`api/${runPath(this.run, "history", "events")}`);
    this.source.onmessage = () => void this.ask();
    this.source.onopen = () => this.poll(false);
    this.source.onerror = () => this.poll(true); // it connects again by itself; until then it is asked
  }

  end(): void {
    this.source?.close();
    this.poll(false);
    window.clearTimeout(this.timer);
  }

  private poll(on: boolean): void {
    window.clearInterval(this.polling);
    this.polling = on ? window.setInterval(() => document.visibilityState === "visible" && void this.ask(), POLL) : 0;
  }

  private async ask(): Promise<void> {
    this.again = true;
    if (this.busy) return;
    this.busy = true;
    this.again = false;
    const began = performance.now();
    try {
      const said = await api.json<HistoryState>(runPath(this.run, "history"));
      this.said = said;
      this.heard.forEach((hear) => hear(said));
      this.again ||= said.reading > 0;
    } catch {
      // The page itself says when the server is away.
    }
    this.busy = false;
    if (!this.again || !this.heard.size) return;
    this.timer = window.setTimeout(() => void this.ask(), Math.max(0, LEAST - (performance.now() - began)));
  }
}

const followed = new Map<string, Following>();

/** Its state, renewed when there is more; undefined until it is known, and in a report. */
export function useLive(run: string): HistoryState | undefined {
  const [said, set] = useState(followed.get(run)?.said);
  useEffect(() => {
    if (api.embedded) return;
    const known = followed.get(run);
    const following = known ?? new Following(run);
    following.heard.add(set);
    set(following.said);
    if (!known) {
      followed.set(run, following);
      following.begin();
    }
    return () => {
      following.heard.delete(set);
      // What takes its place on the page goes on with it.
      window.setTimeout(() => {
        if (following.heard.size || followed.get(run) !== following) return;
        followed.delete(run);
        following.end();
      }, LEAST);
    };
  }, [run]);
  return said;
}
