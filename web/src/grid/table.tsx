/** A table with what is done to it: search, choice of columns, export, notes. */

import type { ComponentChildren } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import type { TableAnswer } from "../api/answers";
import { download } from "../base/download";
import { grouped } from "../base/numbers";
import { words } from "../base/text";
import { Said } from "../base/props";
import { Menu } from "../frame/menu";
import { FailedHere } from "../frame/states";
import { inWords } from "./cells";
import { csv } from "./csv";
import { type Elsewhere, Grid, telling } from "./grid";
import { useRows, type Source } from "./rows";

export interface TableState {
  readonly sort: string;
  readonly search: string;
  readonly columns: readonly string[];
}

interface Props {
  readonly source: Source;
  readonly title: string;
  readonly label: string;
  readonly state: TableState;
  readonly set: (change: Partial<TableState>) => void;
  /** Columns at first, to which "usual" returns. */
  readonly usual: readonly string[];
  readonly canSort?: boolean;
  readonly canSearch?: boolean;
  readonly tallest?: number;
  /** Files of all rows: an address, or something to do. */
  readonly exports: readonly { readonly label: string; readonly href: string; readonly act?: () => void }[];
  readonly open?: ((row: readonly unknown[], head: TableAnswer) => (() => void) | null) | undefined;
  readonly elsewhere?: ((row: readonly unknown[], head: TableAnswer) => Elsewhere | null) | undefined;
  readonly note?: string;
}

export function DataTable({
  source,
  title,
  label,
  state,
  set,
  usual,
  canSort = true,
  canSearch = true,
  tallest,
  exports,
  open,
  elsewhere,
  note,
}: Props) {
  const [left, setLeft] = useState<readonly string[]>([]);
  const rows = useRows(source);
  const { head } = rows;
  const said = useContext(Said);
  const few = !state.search && (head?.all ?? 0) <= 8;
  const first = useRef<{ key: string; columns: readonly string[] }>({ key: "", columns: [] });
  // What is chosen at first stays while rows are searched or sorted; other rows of other ranks are another table.
  const key = head ? JSON.stringify([head.columns.map((column) => column.name), head.all, head.ranks]) : "";
  if (head && first.current.key !== key) first.current = { key, columns: telling(head) };
  const columns = state.columns.length ? state.columns : usual.length ? ranked(usual, head) : first.current.columns;
  return (
    <section class={`table${rows.loading && head ? " renewing" : ""}`}>
      <div class="block-head">
        {title && <h2>{words(title)}</h2>}
        <span class="count">{head?.all ? counted(head) : ""}</span>
        <div class="tools">
          {canSearch && !few && (
            <Search value={state.search} set={(search) => set({ search })} label={`Search ${label}`} />
          )}
          {head && head.all > 0 && (
            <Choose
              head={head}
              columns={state.columns.length ? columns : columns.filter((each) => !left.includes(each))}
              more={state.columns.length ? 0 : left.length}
              set={(chosen) => set({ columns: chosen })}
            />
          )}
          {head && head.all > 0 && <Export exports={exports} head={head} />}
        </div>
      </div>
      {rows.error ? (
        <FailedHere error={rows.error} again={rows.again} />
      ) : !head ? (
        <div class="grid-coming" role="status" aria-label="loading" />
      ) : (
        <Grid
          rows={rows}
          label={label}
          columns={columns}
          sort={state.sort}
          setSort={canSort ? (sort) => set({ sort }) : undefined}
          open={open}
          elsewhere={elsewhere}
          leftOut={state.columns.length ? undefined : setLeft}
          {...(tallest && { tallest })}
          empty={state.search && head.all ? `No row contains “${state.search}”.` : emptyWords(head)}
        />
      )}
      {head &&
        head.total > 0 &&
        head.notes
          .filter((each) => !said.includes(each))
          .map((each) => (
            <p class="note" key={each}>
              {words(each)}
            </p>
          ))}
      {note && <p class="note">{words(note)}</p>}
    </section>
  );
}

/** Rows of several ranks, or cycles, say of which each is; those that are sums over ranks say of which in `ranks`. */
function ranked(columns: readonly string[], head: TableAnswer | undefined): readonly string[] {
  const of = (head?.ranks ?? 0) > 1 && !columns.includes("rank") && !columns.includes("ranks") ? ["rank"] : [];
  // An answer has the column where there are several.
  if (head?.columns.some((column) => column.name === "cycle") && !columns.includes("cycle")) of.push("cycle");
  return of.length ? [...of, ...columns] : columns;
}

const counted = (head: TableAnswer): string =>
  head.total === head.all
    ? head.all === 1
      ? "1 row"
      : `${grouped(head.all)} rows`
    : `${grouped(head.total)} of ${grouped(head.all)} rows`;

const emptyWords = (head: TableAnswer): ComponentChildren =>
  head.notes.length ? head.notes.map((each) => <p key={each}>{words(each)}</p>) : <p>No rows in the selection.</p>;

function Search({ value, set, label }: { value: string; set: (text: string) => void; label: string }) {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  useEffect(() => setText(value), [value]);
  return (
    <input
      type="search"
      class="search"
      placeholder="Search text"
      aria-label={label}
      data-tip="Finds text. Filter numbers like this: calls:gt:10 (eq, ne, lt, le, gt, ge; times in ns)"
      value={text}
      onInput={(event) => {
        const typed = event.currentTarget.value;
        setText(typed);
        clearTimeout(timer.current);
        timer.current = window.setTimeout(() => set(typed), 200);
      }}
    />
  );
}

function Choose({
  head,
  columns,
  more,
  set,
}: {
  head: TableAnswer;
  columns: readonly string[];
  /** How many did not fit. */
  more: number;
  set: (columns: string[]) => void;
}) {
  const all = head.columns.map((column) => column.name);
  const shown = columns.length ? columns : all;
  const toggle = (name: string) => set(shown.includes(name) ? shown.filter((each) => each !== name) : [...shown, name]);
  return (
    <Menu label={more ? `Columns · ${more} more` : "Columns"} tip="Choose columns">
      <div class="column-list">
        {head.columns.map((column) => (
          <label key={column.name} data-tip={column.doc}>
            <input
              type="checkbox"
              checked={shown.includes(column.name)}
              disabled={shown.length === 1 && shown.includes(column.name)}
              onChange={() => toggle(column.name)}
            />
            {inWords(column.name)}
          </label>
        ))}
      </div>
      <div class="row">
        <button class="button" onClick={() => set([])}>
          Usual
        </button>
        <button class="button" onClick={() => set(all)}>
          All
        </button>
      </div>
    </Menu>
  );
}

function Export({ exports, head }: { exports: Props["exports"]; head: TableAnswer }) {
  const kept = exports.filter((each) => each.href);
  if (!kept.length)
    return (
      <button
        class="tool"
        data-tip="The rows in this report"
        onClick={() => download(new Blob([csv(head)], { type: "text/csv" }), `${head.analysis ?? "table"}.csv`)}
      >
        CSV
      </button>
    );
  return (
    <Menu label="Export" tip="All rows as a file">
      <ul class="choices">
        {kept.map(({ label, href, act }) => (
          <li key={label}>
            {act ? (
              <button onClick={act}>{label}</button>
            ) : (
              <a href={href} download="">
                {label}
              </a>
            )}
          </li>
        ))}
      </ul>
    </Menu>
  );
}
