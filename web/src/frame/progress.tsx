/** A thin bar beneath the header while an answer takes long; with the bytes of a read under way. */

import { useEffect, useState } from "preact/hooks";
import { underway } from "../api/ask";
import { api, runPath } from "../api/client";
import type { ReadProgress } from "../api/answers";
import { shown } from "../base/numbers";

const LATE = 400;
const EVERY = 300;

/** From here on it is worth saying how long it takes already, and that it can be ended. */
const LONG = 2000;

export function Progress({ run }: { run: string }) {
  const [since, setSince] = useState(0);
  const [passed, setPassed] = useState(0);
  const [read, setRead] = useState<ReadProgress | null>(null);
  useEffect(() => {
    let asking = false;
    const timer = setInterval(() => {
      const began = Math.min(...[...underway.values()].map((each) => each.since));
      const late = performance.now() - began > LATE;
      setSince(late ? began : 0);
      setPassed(late ? performance.now() - began : 0);
      if (!late) setRead(null);
      if (!late || asking || !run || api.embedded) return;
      asking = true;
      void api
        .json<ReadProgress>(runPath(run, "progress"))
        .then(setRead, () => setRead(null))
        .finally(() => (asking = false));
    }, EVERY);
    return () => clearInterval(timer);
  }, [run]);
  if (!since) return <div class="progress" />;
  const known = read && read.total > 0 && read.done < read.total;
  const said = known
    ? `${read.what || "reading"}: ${shown(read.done, "bytes")} of ${shown(read.total, "bytes")}`
    : read?.what || "working";
  const stops = [...underway.values()].flatMap(({ stop }) => stop ?? []);
  return (
    <div class="progress busy">
      <div
        class="progress-bar"
        role="progressbar"
        aria-label={said}
        {...(known ? { "aria-valuenow": Math.round((100 * read.done) / read.total) } : {})}
      >
        <i class={known ? "" : "unknown"} style={known ? { width: `${(100 * read.done) / read.total}%` } : {}} />
      </div>
      <span>
        {said}
        {passed > LONG && ` · ${Math.floor(passed / 1000)} s`}
        {passed > LONG && stops.length > 0 && (
          <button class="link" onClick={() => stops.forEach((stop) => stop())}>
            Stop
          </button>
        )}
      </span>
    </div>
  );
}
