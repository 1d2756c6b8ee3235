/** The rows of a query as a lane of its own: asked for, and put among the lanes of the run. */

import { useEffect, useState } from "preact/hooks";
import { told } from "../../../api/ask";
import { runPath } from "../../../api/client";
import type { ViewProps } from "../../../base/props";
import type { Select } from "../../../base/url";
import { QUERY } from "../engine/querymarks";
import type { DrawnLanes } from "../engine/types";
import type { QueryLanes, TimelineLane, TimelineLanes } from "../../../api/answers";

/** The lanes of the run with that of the query above those of the devices. */
export function withQuery(lanes: TimelineLanes, { lanes: marks, notes }: QueryLanes): DrawnLanes {
  const of = (rank: number) => marks.find((one) => one.rank === rank);
  const ranks = lanes.ranks.map((own) => {
    const depth = 1 + (of(own.rank)?.depth ?? []).reduce((most, each) => Math.max(most, each), 0);
    const lane: TimelineLane = {
      id: QUERY,
      title: "query",
      depth,
      sort: 0,
      kind: "extra",
      events: of(own.rank)?.start.length ?? 0,
      outer: 0,
      slices: null,
      unit: "",
      max: null,
    };
    const [ruler, ...groups] = own.groups;
    const group = { id: QUERY, title: "query", kind: "extra" as const, lanes: [lane], collapsed: false };
    return { ...own, groups: ruler ? [ruler, group, ...groups] : [group] };
  });
  return { ...lanes, ranks, query: marks, notes: [...notes, ...lanes.notes] };
}

/** What a query gives for some ranks; null while it runs, and without one. */
export function useQueryLanes(
  { api, run, version, params }: Pick<ViewProps, "api" | "run" | "version" | "params">,
  select: Select,
  ranks: string,
): { readonly answer: QueryLanes | null; readonly running: boolean; readonly error: string } {
  const query = api.embedded || !ranks ? "" : (params["sql"] ?? "");
  const key = JSON.stringify([run, version, query, ranks, select.cycle]);
  const [state, set] = useState<{ key: string; answer: QueryLanes | null; error: string }>({
    key: "",
    answer: null,
    error: "",
  });
  useEffect(() => {
    if (!query) return;
    const stop = new AbortController();
    const ticket = `${Date.now()}-${Math.random()}`;
    const path = runPath(run, "sql");
    api.post<QueryLanes>(`${path}/lane`, { drawn: ranks, cycle: select.cycle }, { query, ticket }, stop.signal).then(
      (answer) => set({ key, answer, error: "" }),
      (error: unknown) => !stop.signal.aborted && set({ key, answer: null, error: told(error).message }),
    );
    return () => {
      stop.abort();
      void api.post(`${path}/stop`, {}, { ticket }).catch(() => undefined);
    };
  }, [key]);
  const current = state.key === key;
  return { answer: current ? state.answer : null, running: !!query && !current, error: current ? state.error : "" };
}
