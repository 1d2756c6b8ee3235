/** Run, run to compare with, rank, steps, time range: chosen once, obeyed by every view. */

import { api } from "../api/client";
import type { ListedRun, PageName, RunInfo } from "../api/answers";
import { useKeys } from "../base/keyboard";
import { shown } from "../base/numbers";
import { fitted, printable, toldApart } from "../base/text";
import { setTheme, useDark } from "../base/theme";
import { go, type Select, type State } from "../base/url";
import { Cycles, Only, Ranks, Runs, Steps, TimeRange } from "./pickers";
import { Pill } from "./popover";
import { few, textOf, timeRangeOf } from "../base/ranges";

interface Props {
  readonly state: State;
  readonly runs: readonly ListedRun[];
  readonly about: RunInfo | undefined;
  readonly page: PageName | undefined;
  readonly menu: boolean;
  readonly toggle: () => void;
  readonly help: () => void;
  readonly find: () => void;
}

export function Header({ state, runs, about, page, menu, toggle, help, find }: Props) {
  const dark = useDark();
  const fixed = api.embedded;
  const { select } = state;
  const called = (id: string) => printable(runs.find((run) => run.id === id)?.name ?? id);
  const nameOf = (id: string, other: string) => {
    const fit = (name: string) => fitted(name, innerWidth > 1300 ? 190 : 120, 14);
    return <span data-tip={called(id)}>{toldApart(called(id), other && called(other), fit)}</span>;
  };
  const swap = () => setTheme(dark ? "light" : "dark");
  useKeys({ "Shift+D": { does: dark ? "light page" : "dark page", run: swap } }, "Everywhere", "page");
  const only = [
    select.device && `device ${select.device}`,
    select.stream && `stream ${select.stream}`,
    select.thread && `thread ${select.thread}`,
    select.annotation && `in ${printable(select.annotation)}`,
    ...(["name", "under", "before", "after"] as const).map((key) => select[key] && `${key} ${printable(select[key])}`),
  ].filter(Boolean);
  const ranks = about?.ranks.length ?? 0;
  const time = timeRangeOf(select.time);
  return (
    <header>
      <button class="icon menu" aria-label="Views" aria-expanded={menu} onClick={toggle}>
        <svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
          <path d="M2 4.5h14M2 9h14M2 13.5h14" stroke="currentColor" stroke-width="1.5" />
        </svg>
      </button>
      <a class="brand" href={`#/${encodeURIComponent(state.run)}/overview`}>
        Kinetoscope
      </a>
      <div class="pills">
        <Pill
          label="run"
          value={state.run ? nameOf(state.run, state.base) : "none"}
          title="Run"
          fixed={fixed}
          class="of-run"
        >
          {(close) => (
            <Runs runs={runs} chosen={state.run} choose={(id) => (go({ run: id, view: state.view }), close())} />
          )}
        </Pill>
        {(!fixed || state.base) && (
          <Pill
            label="compare with"
            value={state.base ? nameOf(state.base, state.run) : "none"}
            title="Compare with"
            fixed={fixed}
            set={!!state.base}
            class="of-base"
          >
            {(close) => (
              <Runs
                runs={runs.filter((run) => run.id !== state.run)}
                chosen={state.base}
                none
                like={runs.find((run) => run.id === state.run)?.name ?? ""}
                choose={(id) => (go({ base: id, ...(id ? { view: "compare" } : {}) }), close())}
              />
            )}
          </Pill>
        )}
        <span class="gap" />
        <Pill
          label="rank"
          value={
            about
              ? ranksText(select, about, page)
              : select.rank || select.ranks
                ? few(select.rank ?? select.ranks ?? "")
                : "–"
          }
          title="Rank"
          fixed={fixed || (ranks < 2 && !select.rank && !select.ranks)}
          right
          class="of-rank"
        >
          {(close) => (
            <Ranks
              ranks={about?.ranks ?? []}
              chosen={select.ranks ?? select.rank ?? ""}
              choose={(change) => (go({ select: change }), close())}
            />
          )}
        </Pill>
        {(about?.cycles ?? 1) > 1 && (
          <Pill
            label="cycle"
            value={`${select.cycle ?? (state.view === "timeline" ? 0 : "all")} of ${about?.cycles}`}
            title="Cycle of the profiler"
            fixed={fixed}
            right
            set={!!select.cycle}
          >
            {(close) => (
              <Cycles
                cycles={about?.cycles ?? 1}
                chosen={select.cycle ?? ""}
                choose={(cycle) => (go({ select: { cycle, steps: null, time: null } }), close())}
              />
            )}
          </Pill>
        )}
        <Pill
          label="steps"
          value={stepsText(select, about, page)}
          title="Steps"
          fixed={fixed || (!about?.steps.length && !select.steps)}
          right
          set={!!select.steps}
        >
          {(close) => (
            <Steps
              steps={about?.steps ?? []}
              chosen={select.steps ?? ""}
              choose={(steps) => (go({ select: { steps } }), close())}
            />
          )}
        </Pill>
        <Pill
          label="time"
          value={time ? `${shown(time[0], "ns")} – ${shown(time[1], "ns")}` : "all"}
          title="Time range"
          fixed={fixed}
          right
          set={!!select.time}
        >
          {(close) => (
            <TimeRange
              duration={about?.duration ?? 0}
              steps={about?.steps ?? []}
              chosen={select.time ?? ""}
              choose={(time) => (go({ select: { time } }), close())}
            />
          )}
        </Pill>
        {(!fixed || only.length > 0) && (
          <Pill
            label="filter"
            value={only.length ? only.join(", ") : "none"}
            title="Filter"
            fixed={fixed}
            right
            set={only.length > 0}
          >
            {(close) => <Only select={select} about={about} choose={(change) => (go({ select: change }), close())} />}
          </Pill>
        )}
      </div>
      <button class="icon" aria-label="Go to" data-tip="Go to anything (Ctrl K)" onClick={find}>
        <svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
          <path
            d="M12 12l4 4M13.5 7.75a5.75 5.75 0 1 1-11.5 0a5.75 5.75 0 0 1 11.5 0z"
            fill="none"
            stroke="currentColor"
            stroke-width="1.4"
          />
        </svg>
      </button>
      <button class="icon" aria-label="Keys" data-tip="Keys (?)" onClick={help}>
        <svg
          width="18"
          height="18"
          viewBox="0 0 18 18"
          aria-hidden="true"
          fill="none"
          stroke="currentColor"
          stroke-width="1.4"
        >
          <rect x="1.5" y="4" width="15" height="10" rx="2" />
          <path d="M4.5 7h.01M7.5 7h.01M10.5 7h.01M13.5 7h.01M5.5 11h7" stroke-linecap="round" />
        </svg>
      </button>
      <button
        class="icon"
        aria-label={dark ? "Light page" : "Dark page"}
        data-tip={dark ? "Light page" : "Dark page"}
        onClick={swap}
      >
        <svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
          <circle cx="9" cy="9" r="6.2" fill="none" stroke="currentColor" stroke-width="1.4" />
          <path d="M9 2.8a6.2 6.2 0 0 1 0 12.4z" fill="currentColor" />
        </svg>
      </button>
    </header>
  );
}

/** The ranks that the view is about. */
function ranksText({ rank, ranks }: Select, about: RunInfo, page: PageName | undefined): string {
  const all = page?.ranks === "all" || (page?.ranks === "job" && !rank && !ranks);
  if (about.ranks.length < 2) return `${about.ranks[0] ?? 0}`;
  if (all) return `all ${about.ranks.length}`;
  return `${ranks ? few(ranks) : (rank ?? String(about.ranks[0] ?? 0))} of ${about.ranks.length}`;
}

/** The steps that the view is about. */
function stepsText({ steps, time }: Select, about: RunInfo | undefined, page: PageName | undefined): string {
  const all = about?.steps ?? [];
  if (!all.length) return steps ? few(steps) : about ? "none" : "–";
  const steady = all.filter((step) => step.steady !== false);
  if (steps === "all" || (!steps && (time || page?.recorded)) || (!steps && steady.length === all.length))
    return `all ${all.length}`;
  if (!steps || steps === "steady") {
    const named = few(textOf(steady.map(({ step }) => step)));
    return all[0]?.steady === false ? `${named} · warm-up left out` : `${named} of ${all.length}`;
  }
  return `${few(steps)} of ${all.length}`;
}
