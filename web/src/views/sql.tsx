/** Questions of one's own: SQL over the tables of the run. */

import { useEffect, useRef, useState } from "preact/hooks";
import { tracked, useAnswer } from "../api/ask";
import { runPath } from "../api/client";
import type { SqlTables, TableAnswer } from "../api/answers";
import { printable, words } from "../base/text";
import type { ViewProps } from "../base/props";
import { keep, recall } from "../base/theme";
import { type Proposal, proposals, wordAt } from "./complete";
import { linkOf, usualPlaces } from "../blocks/rowlinks";
import { download } from "../base/download";
import { Menu } from "../frame/menu";
import { FailedHere } from "../frame/states";
import { DataTable, type TableState } from "../grid/table";

const EXAMPLE =
  "SELECT name, count(*) AS calls, sum(duration) AS total\nFROM events\nGROUP BY name\nORDER BY total DESC\nLIMIT 100";
/** Questions to begin with; those with `row` or times can be shown on the timeline. */
const EXAMPLES: readonly (readonly [string, string])[] = [
  ["Operators by time", EXAMPLE],
  [
    "The longest kernels, for the timeline",
    "SELECT rank, row, name, duration, grid\nFROM kernels\nORDER BY duration DESC\nLIMIT 500",
  ],
  [
    "Work that started late after its launch",
    "SELECT rank, row, op_name, name, delay\nFROM launches\nORDER BY delay DESC\nLIMIT 100",
  ],
  [
    "From the first to the last event of each name",
    'SELECT rank, name, min(start) AS start, max("end") AS "end", count(*) AS calls\nFROM ops\nGROUP BY rank, name',
  ],
  ["The steps", "SELECT * FROM steps"],
];
const HISTORY = "kinetoscope-sql";
const MOST_KEPT = 30;

const queries = (): string[] => {
  try {
    const kept = JSON.parse(recall(HISTORY) || "[]") as unknown;
    return Array.isArray(kept) ? kept.filter((each) => typeof each === "string").slice(0, MOST_KEPT) : [];
  } catch {
    return [];
  }
};

const FORMATS = [
  ["csv", "CSV"],
  ["parquet", "Parquet"],
] as const;

export function Sql({ run, about, select, params, api, go, follow }: ViewProps) {
  const path = runPath(run, "sql");
  const tables = useAnswer<SqlTables>(api.embedded ? null : path, { rank: select.rank });
  const asked = params["q"] ?? "";
  const [text, setText] = useState(asked || EXAMPLE);
  const [turn, setTurn] = useState(0);
  const [state, set] = useState<TableState>({ sort: "", search: "", columns: [] });
  const [failed, setFailed] = useState("");
  const [offered, offer] = useState<readonly Proposal[]>([]);
  const [head, setHead] = useState<TableAnswer | null>(null);
  const editor = useRef<HTMLTextAreaElement>(null);
  const running = useRef("");
  const [since, setSince] = useState(0);
  useEffect(() => {
    if (asked) setText(asked);
  }, [asked]);
  const ask = () => {
    set({ sort: "", search: "", columns: [] });
    keep(HISTORY, JSON.stringify([text, ...queries().filter((each) => each !== text)].slice(0, MOST_KEPT)));
    setFailed("");
    setHead(null);
    setTurn(turn + 1);
    go({ params: { q: text } });
  };
  /** One window of the answer. Who no longer waits for it, because the page is left, ends the query. */
  const answer = async (question: object, signal: AbortSignal) => {
    const ticket = `${Date.now()}-${Math.random()}`;
    const end = () => void api.post(`${path}/stop`, {}, { ticket }).catch(() => undefined);
    running.current = ticket;
    setSince(performance.now());
    signal.addEventListener("abort", end, { once: true });
    try {
      const found = await tracked(api.post<TableAnswer>(path, { ...select }, { ...question, ticket }, signal));
      setHead(found);
      return found;
    } finally {
      signal.removeEventListener("abort", end);
      if (running.current === ticket) {
        running.current = "";
        setSince(0);
      }
    }
  };
  /** Rows that name an event, or a time, are a lane of the timeline. */
  const placed = !!head?.columns.some(({ name }) => name === "row" || name === "start");
  const stop = () => void api.post(`${path}/stop`, {}, { ticket: running.current }).catch(() => undefined);
  const look = () => {
    const element = editor.current;
    const end = element && element.selectionStart === element.selectionEnd ? element.selectionEnd : -1;
    offer(element && end >= 0 ? proposals(element.value, end, tables.data?.tables ?? []) : []);
  };
  /** The rest of the word that is being written. */
  const complete = (word: string) => {
    const element = editor.current;
    if (!element) return;
    const { from } = wordAt(element.value, element.selectionEnd);
    element.setRangeText(word, from, element.selectionEnd, "end");
    setText(element.value);
    offer([]);
    element.focus();
  };
  const put = (word: string) => {
    const element = editor.current;
    if (!element) return;
    element.setRangeText(word, element.selectionStart, element.selectionEnd, "end");
    setText(element.value);
    element.focus();
  };
  const exported = async (format: string) => {
    const answer = await fetch(api.href(path, { ...select }), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query: asked, sort: state.sort, search: state.search, format }),
    });
    if (answer.ok) return download(await answer.blob(), `query.${format}`);
    const said = (await answer.json().catch(() => ({}))) as { error?: string };
    setFailed(said.error ?? `The server answered ${answer.status}.`);
  };
  return (
    <article class="page sql">
      <h1>Ask in SQL.</h1>
      <p class="sub">Times are nanoseconds, sizes bytes, shares fractions of 1. Read only.</p>
      <div class="sql-desk">
        <form onSubmit={(event) => (event.preventDefault(), ask())}>
          <textarea
            ref={editor}
            aria-label="Query"
            spellcheck={false}
            rows={Math.min(20, Math.max(7, text.split("\n").length + 1))}
            value={text}
            onInput={(event) => (setText(event.currentTarget.value), look())}
            onBlur={() => setTimeout(() => offer([]), 200)}
            onKeyDown={(event) => {
              const first = offered[0];
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask();
              else if (event.key === "Tab" && first && !event.shiftKey) complete(first.word);
              else if (event.key === "Escape" && first) offer([]);
              else return;
              event.preventDefault();
              event.stopPropagation();
            }}
          />
          <p class="sql-offered" role="status" aria-label="Completion">
            {offered.length > 0 && <small>Tab</small>}
            {offered.map(({ word, about }, at) => (
              <button
                type="button"
                key={word}
                class={at ? "" : "first"}
                data-tip={about}
                tabIndex={-1}
                onClick={() => complete(word)}
              >
                {printable(word)}
              </button>
            ))}
          </p>
          <div class="row">
            <button class="button strong">Run</button>
            <span class="note">Ctrl-Enter</span>
            <Menu label="Examples" tip="Questions to begin with" end={false}>
              <ul class="choices">
                {EXAMPLES.map(([title, query]) => (
                  <li key={title}>
                    <button type="button" onClick={() => setText(query)}>
                      {title}
                    </button>
                  </li>
                ))}
              </ul>
            </Menu>
            <Menu label="History" tip="What you asked before, in this browser" end={false}>
              <ul class="choices">
                {queries().map((query) => (
                  <li key={query}>
                    <button type="button" data-tip={printable(query)} onClick={() => setText(query)}>
                      {printable(query.replace(/\s+/g, " ").slice(0, 70))}
                    </button>
                  </li>
                ))}
                {!queries().length && <li class="note">Nothing yet.</li>}
              </ul>
            </Menu>
            {since > 0 && <Running since={since} stop={stop} />}
          </div>
        </form>
        <div class="sql-tables" aria-label="Tables">
          {tables.error && <p class="note">{words(tables.error.message)}</p>}
          {tables.data?.tables.map((table, at) => (
            <details key={table.name} open={at === 0}>
              <summary data-tip={table.doc}>{printable(table.name)}</summary>
              <ul>
                {table.columns.map((column) => (
                  <li key={column.name}>
                    <button
                      data-tip={`${column.doc}${column.unit ? ` (${column.unit})` : ""}`}
                      onClick={() => put(column.name)}
                    >
                      {printable(column.name)} <small>{column.dtype}</small>
                    </button>
                  </li>
                ))}
              </ul>
            </details>
          ))}
        </div>
      </div>
      {asked && (
        <section class="block block-table">
          {placed && (
            <p>
              <button class="button" onClick={() => go({ view: "timeline", params: { sql: asked } })}>
                Show as a lane of the timeline
              </button>
            </p>
          )}
          {failed && <FailedHere error={{ message: `No file was written: ${failed}` }} />}
          <DataTable
            key={`${turn} ${asked}`}
            source={{
              key: JSON.stringify([path, asked, select, turn, state.sort, state.search]),
              ask: (window, signal) =>
                answer({ query: asked, ...window, sort: state.sort, search: state.search }, signal),
            }}
            title="Answer"
            label="Answer"
            state={state}
            set={(change) => set({ ...state, ...change })}
            usual={[]}
            tallest={640}
            exports={FORMATS.map(([format, label]) => ({
              label,
              href: api.href(path), // Empty where nothing can be downloaded: then the rows that are here are kept.
              act: () => void exported(format).catch(() => setFailed("The server does not answer.")),
            }))}
            open={(row, head) => {
              const link = linkOf(row, head, usualPlaces(head.columns), about.origin);
              return link && (() => follow(link));
            }}
          />
        </section>
      )}
    </article>
  );
}

const SOON = 500;

/** How long a query has been running, and the way to end it; nothing while it is quick. */
function Running({ since, stop }: { since: number; stop: () => void }) {
  const [now, set] = useState(since);
  useEffect(() => {
    const timer = setInterval(() => set(performance.now()), 250);
    return () => clearInterval(timer);
  }, [since]);
  if (now - since < SOON) return null;
  return (
    <span class="running" role="status">
      {`running for ${Math.floor((now - since) / 1000)} s `}
      <button type="button" class="button" onClick={stop}>
        Stop
      </button>
    </span>
  );
}
