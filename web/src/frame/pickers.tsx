/** What stands inside the panels of the header. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { ListedRun, RunInfo, RunStep } from "../api/answers";
import { scale, shown, withUnit } from "../base/numbers";
import { Name, printable } from "../base/text";
import type { Change, Select } from "../base/url";
import { numbersOf, textOf, timeRangeOf, timeRangeText } from "../base/ranges";

const FEW_RUNS = 8;
const MOST_RUNS = 500;

/** The runs whose names share most words with one come first; others stay in their order. */
export function byLikeness(runs: readonly ListedRun[], like: string): ListedRun[] {
  const words = (name: string) =>
    new Set(
      name
        .toLowerCase()
        .split(/[^a-z0-9]+/)
        .filter(Boolean),
    );
  const wanted = words(like);
  const shared = (run: ListedRun) => {
    const own = words(run.name);
    const both = [...own].filter((word) => wanted.has(word)).length;
    return both / Math.max(1, own.size + wanted.size - both);
  };
  return [...runs].sort((a, b) => shared(b) - shared(a));
}

interface RunsProps {
  readonly runs: readonly ListedRun[];
  readonly chosen: string;
  readonly none?: boolean;
  /** The name of a run: those that are called most like it come first. */
  readonly like?: string;
  readonly choose: (id: string) => void;
}

export function Runs({ runs, chosen, none = false, like = "", choose }: RunsProps) {
  const [search, setSearch] = useState("");
  const [active, setActive] = useState(0);
  const list = useRef<HTMLUListElement | null>(null);
  const box = useRef<HTMLInputElement | null>(null);
  useEffect(() => box.current?.focus({ preventScroll: true }), []);
  const found = byLikeness(
    runs.filter((run) => `${run.name} ${run.path}`.toLowerCase().includes(search.toLowerCase())),
    like,
  ).slice(0, MOST_RUNS);
  const move = (to: number) => {
    const at = Math.max(0, Math.min(found.length - 1, to));
    setActive(at);
    list.current?.querySelector(`[data-at="${at}"]`)?.scrollIntoView({ block: "nearest" });
  };
  const keys: Record<string, () => void> = {
    ArrowDown: () => move(active + 1),
    ArrowUp: () => move(active - 1),
    Enter: () => found[active] && choose(found[active].id),
  };
  return (
    <>
      {runs.length > FEW_RUNS && (
        <input
          type="search"
          placeholder="Search"
          aria-label="Search runs"
          value={search}
          ref={box}
          onInput={(event) => (setSearch(event.currentTarget.value), setActive(0))}
          onKeyDown={(event) => {
            const what = keys[event.key];
            if (!what) return;
            event.preventDefault();
            event.stopPropagation();
            what();
          }}
        />
      )}
      {!runs.length && <p>There is no other run in this folder.</p>}
      <ul class="choices" ref={list}>
        {none && chosen && (
          <li>
            <button onClick={() => choose("")}>none</button>
          </li>
        )}
        {found.map((run, at) => (
          <li key={run.id}>
            <button
              data-at={at}
              class={at === active && runs.length > FEW_RUNS ? "active" : ""}
              aria-current={run.id === chosen}
              onClick={() => choose(run.id)}
              data-tip={printable(run.error || run.path)}
            >
              <Name text={run.name} />
              <small class={run.state}>
                {run.state === "ready"
                  ? run.bytes == null
                    ? ""
                    : shown(run.bytes, "bytes")
                  : run.state === "growing"
                    ? "growing"
                    : "cannot be read"}
              </small>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

interface ManyRunsProps {
  readonly runs: readonly ListedRun[];
  /** The run that the page is about: it is always among the chosen. */
  readonly open: string;
  readonly chosen: readonly string[];
  readonly choose: (ids: readonly string[]) => void;
}

/** Several runs: those whose path holds what is searched can be ticked at once. */
export function ManyRuns({ runs, open, chosen, choose }: ManyRunsProps) {
  const [search, setSearch] = useState("");
  const [ticked, tick] = useState<ReadonlySet<string>>(new Set([open, ...chosen]));
  const found = runs.filter((run) => `${run.name} ${run.path}`.toLowerCase().includes(search.toLowerCase()));
  const mark = (ids: readonly string[], on: boolean) => {
    const next = new Set(ticked);
    for (const id of ids)
      if (on) next.add(id);
      else if (id !== open) next.delete(id);
    tick(next);
  };
  const all = found.every((run) => ticked.has(run.id));
  return (
    <form
      onSubmit={(event) => (event.preventDefault(), choose(runs.flatMap(({ id }) => (ticked.has(id) ? [id] : []))))}
    >
      <input
        type="search"
        placeholder="Search"
        aria-label="Search runs"
        value={search}
        onInput={(event) => setSearch(event.currentTarget.value)}
      />
      <ul class="choices">
        {found.slice(0, MOST_RUNS).map((run) => (
          <li key={run.id}>
            <label class="tick" data-tip={printable(run.path)}>
              <input
                type="checkbox"
                checked={ticked.has(run.id)}
                disabled={run.id === open}
                onChange={(event) => mark([run.id], event.currentTarget.checked)}
              />
              <Name text={run.name} />
              <small>{run.bytes == null ? "" : shown(run.bytes, "bytes")}</small>
            </label>
          </li>
        ))}
      </ul>
      <div class="row">
        <button
          type="button"
          class="button"
          onClick={() =>
            mark(
              found.map(({ id }) => id),
              !all,
            )
          }
        >
          {all ? "None" : "All"} of these
        </button>
        <button class="button strong">Show {ticked.size}</button>
      </div>
    </form>
  );
}

interface RanksProps {
  readonly ranks: readonly number[];
  readonly chosen: string;
  readonly choose: (change: NonNullable<Change["select"]>) => void;
}

export function Ranks({ ranks, chosen, choose }: RanksProps) {
  const [text, setText] = useState(chosen);
  const one = (text: string) =>
    choose(
      /^\d+$/.test(text.trim()) ? { rank: text.trim(), ranks: null } : { rank: null, ranks: text.replace(/\s/g, "") },
    );
  const marked = numbersOf(chosen || String(ranks[0] ?? 0));
  return (
    <form onSubmit={(event) => (event.preventDefault(), one(text))}>
      <label>
        <span>
          Rank, or ranks as in <code>0,8-15</code>
        </span>
        <input
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          placeholder={String(ranks[0] ?? 0)}
          inputMode="numeric"
        />
      </label>
      <div class="cells">
        {ranks.slice(0, 512).map((rank) => (
          <button
            type="button"
            key={rank}
            aria-pressed={marked.has(rank)}
            onClick={() => choose({ rank: String(rank), ranks: null })}
          >
            {rank}
          </button>
        ))}
      </div>
      <div class="row">
        <button
          type="button"
          class="button"
          aria-pressed={chosen === "all"}
          onClick={() => choose({ rank: null, ranks: "all" })}
        >
          All ranks
        </button>
        <button class="button strong">Show</button>
      </div>
      {ranks.length > 512 && <p>and {ranks.length - 512} more</p>}
    </form>
  );
}

/** Cycles of the profiler, where a rank recorded several: each is a file of its own. */
export function Cycles({
  cycles,
  chosen,
  choose,
}: {
  cycles: number;
  chosen: string;
  choose: (cycle: string | null) => void;
}) {
  return (
    <div class="cells">
      <button aria-pressed={!chosen} onClick={() => choose(null)}>
        all
      </button>
      {Array.from({ length: Math.min(cycles, 256) }, (_, cycle) => (
        <button key={cycle} aria-pressed={String(cycle) === chosen} onClick={() => choose(String(cycle))}>
          {cycle}
        </button>
      ))}
    </div>
  );
}

interface StepsProps {
  readonly steps: readonly RunStep[];
  readonly chosen: string;
  readonly choose: (steps: string | null) => void;
}

/** A bar for each step, as long as the step; a click takes one, a click with Shift the range to it. */
export function Steps({ steps, chosen, choose }: StepsProps) {
  const [text, setText] = useState(chosen);
  const [anchor, setAnchor] = useState<number | null>(null);
  const marked = /\d/.test(text) ? numbersOf(text) : null;
  const unit = scale(
    steps.map((step) => step.end - step.start),
    "ns",
  );
  const longest = Math.max(1, ...steps.map((step) => step.end - step.start));
  const take = (step: number, range: boolean) => {
    if (range && anchor !== null)
      setText(textOf(Array.from({ length: Math.abs(step - anchor) + 1 }, (_, at) => Math.min(step, anchor) + at)));
    else {
      setText(String(step));
      setAnchor(step);
    }
  };
  return (
    <form onSubmit={(event) => (event.preventDefault(), choose(text.trim() || null))}>
      <div class="row">
        <button type="button" class="button" aria-pressed={chosen === "all"} onClick={() => choose("all")}>
          All
        </button>
        <button
          type="button"
          class="button"
          aria-pressed={!chosen || chosen === "steady"}
          data-tip="Without warm-up steps"
          onClick={() => choose(null)}
        >
          Steady
        </button>
        <input
          value={text}
          aria-label="Steps"
          placeholder="3-5"
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button class="button strong">Show</button>
      </div>
      <div class="step-bars" role="group" aria-label="Steps by duration">
        {steps.slice(0, 400).map(({ step, start, end, steady = true }) => (
          <button
            type="button"
            key={step}
            aria-pressed={marked?.has(step) ?? false}
            class={steady ? "" : "warm"}
            data-tip={`step ${step}: ${withUnit(unit, end - start)}${steady ? "" : ", not steady: warm-up, or empty"}`}
            aria-label={`step ${step}, ${withUnit(unit, end - start)}`}
            onClick={(event) => take(step, event.shiftKey)}
            onDblClick={() => choose(String(step))}
          >
            <i style={{ height: `${(100 * (end - start)) / longest}%` }} />
            {steps.length <= 24 && <span>{step}</span>}
          </button>
        ))}
      </div>
      <p>
        Click takes a step, Shift-click a range.
        {steps.length > 400 && ` The first 400 of ${steps.length} are drawn.`}
      </p>
    </form>
  );
}

interface TimeProps {
  readonly duration: number;
  readonly steps: readonly RunStep[];
  readonly chosen: string;
  readonly choose: (time: string | null) => void;
}

export function TimeRange({ duration, chosen, choose }: TimeProps) {
  const unit = scale([duration], "ns");
  const [start, end] = timeRangeOf(chosen) ?? [0, duration];
  const [from, setFrom] = useState(String(+(start / unit.divisor).toFixed(6)));
  const [to, setTo] = useState(String(+(end / unit.divisor).toFixed(6)));
  const ns = (text: string) => Math.round(Number(text.replace(",", ".")) * unit.divisor);
  const fine = ns(from) >= 0 && ns(to) > ns(from);
  return (
    <form onSubmit={(event) => (event.preventDefault(), fine && choose(timeRangeText(ns(from), ns(to))))}>
      <div class="row">
        <label>
          From ({unit.label})
          <input value={from} inputMode="decimal" onInput={(event) => setFrom(event.currentTarget.value)} />
        </label>
        <label>
          to ({unit.label})
          <input value={to} inputMode="decimal" onInput={(event) => setTo(event.currentTarget.value)} />
        </label>
      </div>
      <div class="row">
        <button type="button" class="button" disabled={!chosen} onClick={() => choose(null)}>
          All of it
        </button>
        <button class="button strong" disabled={!fine}>
          Show
        </button>
      </div>
      <p>After the first event of the trace. A range can also be dragged on the timeline and on some charts.</p>
    </form>
  );
}

const FIELDS = [
  ["device", "Devices", "all"],
  ["stream", "Streams", "all"],
  ["thread", "Host threads", "all"],
  ["annotation", "Inside the annotation", "name"],
  ["name", "Calls and kernels named", "aten::conv*"],
  ["under", "Calls of this name, and all in them", "aten::linear"],
  ["before", "Before the first call of this name, in each step", "Optimizer.step*"],
  ["after", "After the last call of this name, in each step", "Optimizer.step*"],
  ["steps_by", "Annotation that is a step", "ProfilerStep"],
] as const;

interface OnlyProps {
  readonly select: Select;
  readonly about: RunInfo | undefined;
  readonly choose: (change: NonNullable<Change["select"]>) => void;
}

export function Only({ select, about, choose }: OnlyProps) {
  const [values, setValues] = useState<Record<string, string>>(
    Object.fromEntries(FIELDS.map(([key]) => [key, select[key] ?? ""])),
  );
  const known: Record<string, readonly (readonly [number, string])[]> = {
    device: (about?.devices ?? []).map(({ device, name }) => [device, name]),
    stream: [...new Set((about?.streams ?? []).map(({ stream }) => stream))].map((stream) => [
      stream,
      `stream ${stream}`,
    ]),
    thread: (about?.threads ?? []).map(({ thread, name }) => [thread, name]),
  };
  const toggle = (key: string, number: number) => {
    const chosen = numbersOf(values[key] ?? "");
    if (!chosen.delete(number)) chosen.add(number);
    setValues({ ...values, [key]: textOf(chosen) });
  };
  return (
    <form
      onSubmit={(event) => (
        event.preventDefault(),
        choose(Object.fromEntries(FIELDS.map(([key]) => [key, values[key]?.trim() || null])))
      )}
    >
      {FIELDS.map(([key, label, example]) => (
        <div key={key} class="field">
          <label>
            {label}
            <input
              value={values[key]}
              placeholder={example}
              onInput={(event) => setValues({ ...values, [key]: event.currentTarget.value })}
            />
          </label>
          {key === "steps_by" && !!about?.step_names?.length && (
            <div class="cells">
              {about.step_names.slice(0, 8).map((name) => (
                <button
                  type="button"
                  key={name}
                  aria-pressed={values[key] === name}
                  onClick={() => setValues({ ...values, [key]: values[key] === name ? "" : name })}
                >
                  {printable(name)}
                </button>
              ))}
            </div>
          )}
          {(known[key]?.length ?? 0) > 1 && (
            <div class="cells">
              {known[key]?.slice(0, 16).map(([number, name]) => (
                <button
                  type="button"
                  key={number}
                  aria-pressed={numbersOf(values[key] ?? "").has(number)}
                  data-tip={name}
                  onClick={() => toggle(key, number)}
                >
                  {number}
                </button>
              ))}
            </div>
          )}
        </div>
      ))}
      <div class="row">
        <button
          type="button"
          class="button"
          onClick={() => choose(Object.fromEntries(FIELDS.map(([key]) => [key, null])))}
        >
          Everything
        </button>
        <button class="button strong">Show</button>
      </div>
    </form>
  );
}
