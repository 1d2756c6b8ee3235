/** The page History: its picture at once, what it says as soon as that is worked out, and anew while the run goes on. */

import { useEffect, useRef, useState } from "preact/hooks";
import { useLive } from "../api/live";
import type { ViewProps } from "../base/props";
import { HistoryPicture } from "../blocks/history";
import { Context } from "../base/props";
import { BlockPage } from "./page";

/** What is said of a run is worked out again after so many times as long as that took, and not before this, ms. */
const RATIO = 20;
const LEAST = 5000;

export function HistoryView(props: ViewProps) {
  const live = useLive(props.run);
  const [rows, setRows] = useState<number>();
  const began = useRef(0);
  const took = useRef(0);
  const now = live && !live.reading ? live.rows : undefined;
  useEffect(() => {
    if (now === undefined || now === rows) return;
    const wait = rows === undefined ? 0 : began.current + Math.max(LEAST, RATIO * took.current) - performance.now();
    const timer = setTimeout(
      () => {
        began.current = performance.now();
        setRows(now);
      },
      Math.max(wait, 0),
    );
    return () => clearTimeout(timer);
  }, [now, rows]);
  const lead = (
    <section class="page">
      <h1>Working out what the run did…</h1>
      <Context.Provider value={props}>
        <HistoryPicture block={null} />
      </Context.Provider>
    </section>
  );
  if (rows === undefined && !props.api.embedded) return lead;
  return (
    <BlockPage
      {...props}
      more={rows === undefined ? {} : { "p.rows": rows }}
      lead={lead}
      came={() => (took.current = performance.now() - began.current)}
    />
  );
}
