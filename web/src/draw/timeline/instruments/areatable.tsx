/** The table of the selected area: what lies in it, by name, by lane or by kind; a click goes to one after the other. */

import { useEffect, useRef, useState } from "preact/hooks";
import { tracked } from "../../../api/ask";
import { api } from "../../../api/client";
import { pairs, type Query } from "../../../api/transport";
import type { RankOccurrence, TableAnswer } from "../../../api/answers";
import { grouped, shown } from "../../../base/numbers";
import type { ViewProps } from "../../../base/props";
import { printable } from "../../../base/text";
import { useKeys } from "../../../base/keyboard";
import { markdown } from "../../../grid/markdown";
import { DataTable, type TableState } from "../../../grid/table";
import "./instruments.css";

const GROUPINGS = [
  ["name", "Name"],
  ["name_and_lane", "Name and lane"],
  ["lane", "Lane"],
  ["kind", "Kind"],
] as const;
const USUAL = {
  name: ["name", "kind", "count", "total", "self", "mean", "min", "max", "share"],
  name_and_lane: ["name", "lane", "count", "total", "self", "mean", "min", "max"],
  lane: ["lane", "group", "count", "total", "self", "mean", "min", "max", "share"],
  kind: ["kind", "count", "total", "self", "mean", "min", "max", "share"],
} as const;
const FORMATS = ["csv", "parquet", "json"] as const;
/** Rows that are copied at most: what one answer holds. */
const COPIED = 10_000;
const SORT = ""; // the server's own order: by self time, of device rows by total
/** Above and below the rows: tools, the head of the table, a note. */
const AROUND = 104;

interface Props {
  readonly path: string;
  /** Ranks that are drawn, the range in their common time, and the lanes. */
  readonly asked: Query;
  readonly length: number;
  readonly lanes: string;
  readonly height: number | null;
  readonly params: ViewProps["params"];
  readonly tables: ViewProps["state"]["tables"];
  readonly version: string;
  readonly go: ViewProps["go"];
  readonly chosen: { readonly rank: number; readonly row: number } | null;
  readonly pick: (rank: number, row: number) => void;
  /** All lanes instead of some; null: they are all. */
  readonly widen: (() => void) | null;
  readonly close: () => void;
}

/** The row whose events are gone through, and the one of them that is selected. */
interface Walk {
  readonly of: string;
  readonly label: string;
  readonly now: RankOccurrence;
}

type Which = "next" | "previous" | "longest";

export function AreaTable({
  path,
  asked,
  length,
  lanes,
  height,
  params,
  tables,
  version,
  go,
  chosen,
  pick,
  ...rest
}: Props) {
  const by = GROUPINGS.find(([name]) => name === params["by"])?.[0] ?? "name";
  const [walk, setWalk] = useState<Walk | null>(null);
  const [said, say] = useState("");
  const turn = useRef(0);
  const kept = (what: string) => tables[`area.${what}`];
  const now: TableState = {
    sort: kept("sort") === "-" ? "" : (kept("sort") ?? SORT),
    search: kept("search") ?? "",
    columns: (kept("columns") ?? "").split(",").filter(Boolean),
  };
  const set = (change: Partial<TableState>) => {
    const next: Record<string, string> = {};
    if (change.sort !== undefined) next["area.sort"] = change.sort === SORT ? "" : change.sort || "-";
    if (change.search !== undefined) next["area.search"] = change.search;
    if (change.columns !== undefined) next["area.columns"] = change.columns.join(",");
    go({ tables: next }, { replace: true });
  };
  const query = { ...asked, by, sort: now.sort || undefined, search: now.search || undefined };
  const key = path + JSON.stringify(pairs(query)) + version;
  const area = JSON.stringify(pairs(asked));
  useEffect(() => setWalk(null), [area, by]);

  /** To another event of the same name and kind. */
  const walkTo = async (of: string, label: string, from: { rank: number; row: number }, which: Which) => {
    const mine = ++turn.current;
    const found = await tracked(
      api.json<RankOccurrence | null>(`${path}/occurrence`, { ...asked, of: from.rank, row: from.row, which }),
    ).catch(() => null);
    if (!found || mine !== turn.current) return;
    setWalk({ of, label, now: found });
    say(`${grouped(found.place + 1)} of ${grouped(found.total)}`);
    pick(found.rank, found.row);
  };
  const on = (which: Which) => walk && void walkTo(walk.of, walk.label, chosen ?? walk.now, which);
  useKeys(
    {
      "}": { does: "next event of the chosen row of the table", run: () => on("next") },
      "{": { does: "previous event of the chosen row of the table", run: () => on("previous") },
    },
    "Timeline, area",
    "instrument",
  );

  const copy = async () => {
    const answer = await api.json<TableAnswer>(`${path}/area`, { ...query, offset: 0, limit: COPIED });
    const columns = now.columns.length ? now.columns : USUAL[by];
    await navigator.clipboard.writeText(markdown(answer, columns));
    say(`${grouped(answer.rows.length)} rows copied`);
  };
  return (
    <section
      class="tl-area"
      style={height == null ? {} : { height: `${height}px` }}
      aria-label="What lies in the selected area"
    >
      <div class="tl-area-head">
        <h2>
          {shown(length, "ns")} in {lanes}
        </h2>
        {rest.widen && (
          <button class="tl-tool" onClick={rest.widen}>
            All lanes
          </button>
        )}
        <div class="segments" role="group" aria-label="A row for each">
          {GROUPINGS.map(([name, label]) => (
            <button
              key={name}
              aria-pressed={name === by}
              onClick={() => go({ params: { by: name === "name" ? null : name } }, { replace: true })}
            >
              {label}
            </button>
          ))}
        </div>
        {walk && (
          <span class="tl-walk">
            <button class="tl-tool" aria-label="Previous event of this row" data-tip="{" onClick={() => on("previous")}>
              ‹
            </button>
            <span>
              {grouped(walk.now.place + 1)} of {grouped(walk.now.total)} × {printable(walk.label)}
            </span>
            <button class="tl-tool" aria-label="Next event of this row" data-tip="}" onClick={() => on("next")}>
              ›
            </button>
            <button class="tl-tool" onClick={() => on("longest")}>
              Longest
            </button>
          </span>
        )}
        <span class="tl-unseen" aria-live="polite">
          {said}
        </span>
        <button class="tl-close" aria-label="Clear the selected area" data-tip="Escape" onClick={rest.close}>
          ×
        </button>
      </div>
      <DataTable
        source={{
          key,
          ask: (window, signal) => tracked(api.json<TableAnswer>(`${path}/area`, { ...query, ...window }, signal)),
        }}
        title=""
        label="events of the area"
        state={now}
        set={set}
        usual={USUAL[by]}
        tallest={height == null ? 400 : Math.max(64, height - AROUND)}
        exports={[
          ...FORMATS.map((format) => ({
            label: format === "parquet" ? "Parquet" : format.toUpperCase(),
            href: api.href(`${path}/area`, { ...query, format }),
          })),
          { label: "Copy as Markdown", href: "#", act: () => void copy() },
        ]}
        open={(row, head) => {
          const at = (name: string) => row[head.columns.findIndex((column) => column.name === name)];
          const [rank, longest] = [at("longest_rank"), at("longest")];
          if (typeof rank !== "number" || typeof longest !== "number") return null;
          if (by === "lane" || by === "kind") return () => pick(rank, longest);
          const of = JSON.stringify([at("name"), at("kind"), at("lane"), at("rank")]);
          const label = String(at("name"));
          // The first click shows the longest, each further one the next.
          return () =>
            walk?.of === of
              ? void walkTo(of, label, chosen ?? walk.now, "next")
              : void walkTo(of, label, { rank, row: longest }, "longest");
        }}
      />
    </section>
  );
}
