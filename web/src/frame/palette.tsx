/** Ctrl-K: whatever the page can show or do, by a few letters of its name. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { tracked, useAnswer } from "../api/ask";
import { api, runPath } from "../api/client";
import type { Query } from "../api/transport";
import type { AnalysisList, ListedRun, PageName, RunInfo, TableAnswer } from "../api/answers";
import { download } from "../base/download";
import { fits } from "../base/fuzzy";
import { shown } from "../base/numbers";
import { printable } from "../base/text";
import { setTheme, useDark } from "../base/theme";
import { go, ofOneRank, SELECT, type Change, type State } from "../base/url";

interface Props {
  readonly state: State;
  readonly pages: readonly PageName[];
  readonly runs: readonly ListedRun[];
  readonly about: RunInfo | undefined;
  readonly keys: () => void;
  readonly close: () => void;
}

interface Entry {
  readonly what: string;
  readonly label: string;
  readonly detail?: string;
  readonly run: () => void;
}

const LISTED = 40;
const NAMES = 6;
const PAUSE = 150;
const STEPS = 2000;

export function Palette(props: Props) {
  const { state, about, close } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const [typed, type] = useState("");
  const [active, setActive] = useState(0);
  const entries = useEntries(props);
  const names = useNames(typed, state, about);
  useEffect(() => dialog.current?.showModal(), []);
  const found = useMemo(() => {
    if (!typed.trim()) return entries.filter(({ what }) => what === "view" || what === "action");
    const scored = [...entries, ...names].flatMap((entry) => {
      const score = fits(typed, `${entry.label} ${entry.what}`);
      return score > 0 ? [{ entry, score }] : [];
    });
    const searched: Entry = {
      what: "search",
      label: `“${typed.trim()}” on the timeline`,
      run: () => go({ view: "timeline", params: { q: typed.trim() } }),
    };
    return [...scored.sort((a, b) => b.score - a.score).map(({ entry }) => entry), searched];
  }, [typed, entries, names]).slice(0, LISTED);
  const move = (to: number) => {
    const at = (to + found.length) % Math.max(1, found.length);
    setActive(at);
    list.current?.querySelector(`#go-${at}`)?.scrollIntoView({ block: "nearest" });
  };
  const choose = (entry: Entry | undefined) => {
    if (!entry) return;
    close();
    entry.run();
  };
  const keys: Record<string, () => void> = {
    ArrowDown: () => move(active + 1),
    ArrowUp: () => move(active - 1),
    PageDown: () => move(Math.min(found.length - 1, active + 10)),
    PageUp: () => move(Math.max(0, active - 10)),
    Enter: () => choose(found[active]),
  };
  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Go to"
      onClose={close}
      onClick={(event) => event.target === dialog.current && close()}
    >
      <input
        role="combobox"
        aria-expanded="true"
        aria-controls="go-list"
        aria-activedescendant={found.length ? `go-${active}` : undefined}
        aria-label="Go to a view, run, analysis, step, rank, name, or do something"
        placeholder="Go to a view, run, analysis, step, rank, operator, kernel …"
        autofocus
        spellcheck={false}
        value={typed}
        onInput={(event) => (type(event.currentTarget.value), setActive(0))}
        onKeyDown={(event) => {
          const what = keys[event.key];
          if (!what || event.isComposing) return;
          event.preventDefault();
          event.stopPropagation();
          what();
        }}
      />
      <ul id="go-list" role="listbox" aria-label="What fits" ref={list}>
        {found.map((entry, at) => (
          <li
            key={`${entry.what} ${entry.label} ${at}`}
            id={`go-${at}`}
            role="option"
            aria-selected={at === active}
            onPointerMove={() => setActive(at)}
            onClick={() => choose(entry)}
          >
            <span>{printable(entry.label)}</span>
            {entry.detail && <em>{printable(entry.detail)}</em>}
            <small>{entry.what}</small>
          </li>
        ))}
      </ul>
    </dialog>
  );
}

/** What is known without asking: views, actions, analyses, runs, steps, ranks. */
function useEntries({ state, pages, runs, about, keys }: Props): readonly Entry[] {
  const dark = useDark();
  const analyses = useAnswer<AnalysisList>(api.holds("analyses") ? "analyses" : null).data;
  return useMemo(() => {
    const to = (change: Change) => () => go(change);
    const found: Entry[] = pages
      .filter(({ name }) => !api.embedded || api.holds(runPath(state.run, "pages", name)) || name === "timeline")
      .map(({ name, title }) => ({ what: "view", label: title, run: to({ view: name }) }));
    const action = (label: string, run: () => void, detail = "") => found.push({ what: "action", label, detail, run });
    action(dark ? "Light page" : "Dark page", () => setTheme(dark ? "light" : "dark"));
    action("Copy the link to this view", () => void navigator.clipboard?.writeText(location.href));
    action("All keys", keys);
    if (Object.keys(state.select).length)
      action("Show all", to({ select: Object.fromEntries(SELECT.map((key) => [key, null])) }), "no rank, steps, time");
    if (!api.embedded && about) {
      const save = () => void report(state.run, about.name, { ...state.select });
      action("Download the report", save, "this run as one HTML file");
    }
    for (const [name, { title, question }] of Object.entries(analyses?.analyses ?? {}))
      found.push({ what: "analysis", label: title, detail: question, run: to({ view: "analyses", params: { name } }) });
    for (const run of runs) {
      if (run.id === state.run || run.state === "error") continue;
      found.push({ what: "run", label: run.name, run: to({ run: run.id, view: state.view }) });
      if (!api.embedded)
        found.push({ what: "compare with", label: run.name, run: to({ base: run.id, view: "compare" }) });
    }
    for (const { step, start, end } of (about?.steps ?? []).slice(0, STEPS))
      found.push({
        what: "step",
        label: `Step ${step}`,
        detail: shown(end - start, "ns"),
        run: to({ select: { steps: String(step) } }),
      });
    if (about?.steps.length) {
      found.push({ what: "steps", label: "All steps", run: to({ select: { steps: "all" } }) });
      found.push({ what: "steps", label: "Steady steps", run: to({ select: { steps: null } }) });
    }
    const ranks = about?.ranks ?? [];
    if (ranks.length > 1) {
      found.push({ what: "ranks", label: "All ranks", run: to({ select: { rank: null, ranks: "all" } }) });
      for (const rank of ranks)
        found.push({
          what: "rank",
          label: `Rank ${rank}`,
          run: to({ select: { rank: String(rank), ranks: null } }),
        });
    }
    return found;
  }, [state.run, state.view, JSON.stringify(state.select), pages, runs, about, analyses, dark]);
}

const SOUGHT = [
  ["operator", "operators"],
  ["kernel", "kernels"],
] as const;

/** Operators and kernels of the run whose names hold what was typed. */
function useNames(typed: string, state: State, about: RunInfo | undefined): readonly Entry[] {
  const [found, set] = useState<readonly Entry[]>([]);
  const wanted = typed.trim();
  useEffect(() => {
    set([]);
    if (wanted.length < 2 || !about) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      for (const [what, name] of SOUGHT) {
        const query = { ...ofOneRank(state.select, about.rank), search: wanted, offset: "0", limit: String(NAMES * 2) };
        void tracked(api.json<TableAnswer>(runPath(state.run, "analyses", name), query, stop.signal)).then(
          ({ columns, rows, short }) => {
            const place = columns.findIndex((column) => column.name === "name");
            const names = [...new Set(rows.map((row) => String(row[place])))].slice(0, NAMES);
            const entries = names.map((each) => ({
              what,
              label: short?.[each] ?? each,
              run: () => go({ view: name, params: { name: each } }),
            }));
            if (!stop.signal.aborted) set((before) => [...before, ...entries]);
          },
          () => undefined,
        );
      }
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [wanted, state.run, about]);
  return found;
}

async function report(run: string, name: string, query: Query): Promise<void> {
  const page = await tracked(api.bytes(runPath(run, "report"), query));
  download(new Blob([page], { type: "text/html" }), `${name.replace(/[^\w.-]+/g, "_")}.html`);
}
