/** The rows of an analysis under the selection of the header; sorted, searched and paged by the server. */

import { runPath } from "../api/client";
import type { Link, Table } from "../api/blocks";
import type { TableAnswer } from "../api/answers";
import { pairs } from "../api/transport";
import { tracked } from "../api/ask";
import { useProps } from "../base/props";
import { DataTable, type TableState } from "../grid/table";
import { addressOf } from "../frame/follow";
import { linkOf, usualPlaces, wordsOf } from "./rowlinks";

export function TableBlock({
  title,
  analysis,
  params,
  columns,
  sort,
  filter,
  links,
  note,
  place,
}: Table & { place: number }) {
  return (
    <section class="block block-table">
      <AnalysisTable
        id={`${analysis}${place}`}
        title={title}
        analysis={analysis}
        params={params}
        columns={columns}
        sort={sort}
        filter={filter}
        links={links}
        note={note}
      />
    </section>
  );
}

interface Props {
  /** Names the state of this table in the address. */
  readonly id: string;
  readonly title: string;
  readonly analysis: string;
  readonly params: Readonly<Record<string, string>>;
  readonly columns: readonly string[];
  readonly sort: string;
  readonly filter: string;
  readonly links: Readonly<Record<string, string>>;
  readonly note?: string;
  readonly tallest?: number;
}

const FORMATS = [
  ["csv", "CSV"],
  ["parquet", "Parquet"],
  ["arrow", "Arrow"],
  ["json", "JSON"],
] as const;

export function AnalysisTable({
  id,
  title,
  analysis,
  params,
  columns,
  sort,
  filter,
  links,
  note = "",
  tallest,
}: Props) {
  const { run, version, select, state, api, go, follow } = useProps();
  const kept = (what: string) => state.tables[`${id}.${what}`];
  const now: TableState = {
    sort: kept("sort") === "-" ? "" : (kept("sort") ?? sort),
    search: kept("search") ?? "",
    columns: (kept("columns") ?? "").split(",").filter(Boolean),
  };
  const set = (change: Partial<TableState>) => {
    const tables: Record<string, string> = {};
    if (change.sort !== undefined) tables[`${id}.sort`] = change.sort === sort ? "" : change.sort || "-";
    if (change.search !== undefined) tables[`${id}.search`] = change.search;
    if (change.columns !== undefined) tables[`${id}.columns`] = change.columns.join(",");
    go({ tables }, { replace: true });
  };
  const path = runPath(run, "analyses", analysis);
  const asked = {
    ...select,
    ...Object.fromEntries(Object.entries(params).map(([key, value]) => [`p.${key}`, value])),
    sort: now.sort || undefined,
    filter: filter || undefined,
    search: now.search || undefined,
  };
  const leads = (row: readonly unknown[], head: TableAnswer) =>
    linkOf(row, head, Object.keys(links).length ? links : usualPlaces(head.columns));
  const leaves = ({ view }: Partial<Link>) => !!view && view !== state.view;
  return (
    <DataTable
      source={{
        key: path + JSON.stringify(pairs(asked)) + version,
        ask: (window, signal) => tracked(api.json<TableAnswer>(path, { ...asked, ...window }, signal)),
      }}
      title={title}
      label={title || analysis}
      state={now}
      set={set}
      usual={columns}
      exports={FORMATS.map(([format, label]) => ({ label, href: api.href(path, { ...asked, format }) }))}
      open={(row, head) => {
        const link = leads(row, head);
        return link && !leaves(link) ? () => follow(link) : null;
      }}
      elsewhere={(row, head) => {
        const link = leads(row, head);
        return link && leaves(link) ? { says: wordsOf(link), href: addressOf(link), go: () => follow(link) } : null;
      }}
      note={note}
      {...(tallest && { tallest })}
    />
  );
}
