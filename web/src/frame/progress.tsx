/** A thin bar beneath the header while an answer takes long; with the bytes of a read under way. */

import { useEffect, useState } from "preact/hooks";
import { underway } from "../api/ask";
import { api, runPath } from "../api/client";
import type { Progress as Read } from "../api/types";
import { shown } from "../base/numbers";

const LATE = 400;
const EVERY = 300;

export function Progress({ run }: { run: string }) {
  const [busy, setBusy] = useState(false);
  const [read, setRead] = useState<Read | null>(null);
  useEffect(() => {
    let since = 0;
    let asking = false;
    const timer = setInterval(() => {
      if (!underway.size) since = 0;
      else since ||= performance.now();
      const late = since > 0 && performance.now() - since > LATE;
      setBusy(late);
      if (!late) setRead(null);
      if (!late || asking || !run || api.embedded) return;
      asking = true;
      void api
        .json<Read>(runPath(run, "progress"))
        .then(setRead, () => setRead(null))
        .finally(() => (asking = false));
    }, EVERY);
    return () => clearInterval(timer);
  }, [run]);
  if (!busy) return <div class="progress" />;
  const known = read && read.total > 0 && read.done < read.total;
  const said = known
    ? `${read.what || "reading"}: ${shown(read.done, "bytes")} of ${shown(read.total, "bytes")}`
    : read?.what || "working";
  return (
    <div
      class="progress busy"
      role="progressbar"
      aria-label={said}
      {...(known ? { "aria-valuenow": Math.round((100 * read.done) / read.total) } : {})}
    >
      <i class={known ? "" : "unknown"} style={known ? { width: `${(100 * read.done) / read.total}%` } : {}} />
      <span>{said}</span>
    </div>
  );
}
