/** Two runs above each other on one scale: a step of each begins at the same place, and both move together. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Timelines } from "../../../api/blocks";
import { useAnswer } from "../../../api/ask";
import { runPath } from "../../../api/client";
import { shown, signed } from "../../../base/numbers";
import { useProps } from "../../../base/props";
import { printable } from "../../../base/text";
import { hashOf } from "../../../base/url";
import { FailedHere, Waiting } from "../../../frame/states";
import { wholeTile } from "../engine/engine";
import { Hovering } from "../stage/hovering";
import { startOf, textOf } from "../engine/places";
import { Stage } from "../stage/stage";
import { themeOf } from "../stage/theme";
import type { EventDetails, TimelineLanes, TimelineStep } from "../../../api/answers";
import type { Mark, Span } from "../engine/types";
import { kindWords } from "../stage/theme";

const HEIGHT = 280;
/** Of the longer of two steps, left free at each side. */
const ROOM = 0.04;

export function Beside({ rank, other_rank: otherRank }: Timelines) {
  const { run, version, state } = useProps();
  const now = useAnswer<TimelineLanes>(runPath(run, "timeline", "lanes"), { rank: String(rank) }, version);
  const before = useAnswer<TimelineLanes>(
    runPath(state.base, "timeline", "lanes"),
    { rank: String(otherRank) },
    version,
  );
  const error = now.error ?? before.error;
  if (error) return <FailedHere error={error} again={now.error ? now.again : before.again} />;
  if (!now.data || !before.data) return <Waiting what="Drawing both timelines" />;
  return <Both key={`${run} ${state.base}`} now={now.data} before={before.data} />;
}

type Side = "before" | "now";
const SIDES: readonly Side[] = ["before", "now"];

interface Begin {
  readonly start: number;
  readonly end: number;
  readonly step: TimelineStep | null;
}

/** What of a run is laid beside the other: a steady step, else all of it. */
function beginsOf(lanes: TimelineLanes): readonly Begin[] {
  const own = lanes.ranks[0];
  const moved = (own?.steps ?? []).map((step) => ({
    start: step.start + (own?.offset ?? 0),
    end: step.end + (own?.offset ?? 0),
    step,
  }));
  const steady = moved.filter(({ step }) => step.steady !== false);
  const all = steady.length ? steady : moved;
  return all.length ? all : [{ start: lanes.start, end: lanes.end, step: null }];
}

/** The step whose length is in the middle. */
function typical(begins: readonly Begin[]): number {
  const order = begins.map((_, place) => place).sort((a, b) => long(begins[a]) - long(begins[b]));
  return order[order.length >> 1] ?? 0;
}

const long = (span: Span | undefined): number => (span ? span.end - span.start : 0);

function Both({ now, before }: Readonly<Record<Side, TimelineLanes>>) {
  const lanes = { now, before };
  const begins = { now: beginsOf(now), before: beginsOf(before) };
  const stages = useRef<Partial<Record<Side, Stage>>>({});
  const leads = useRef<Side>("now");
  const [chosen, choose] = useState(() => ({ now: typical(begins.now), before: typical(begins.before) }));
  const at = { now: begins.now[chosen.now] as Begin, before: begins.before[chosen.before] as Begin };
  const placed = useRef(at);
  placed.current = at;

  /** The one that the reader moves leads, and the other shows the same stretch after the beginning of its step. */
  const moved = (side: Side, view: Span) => {
    if (side !== leads.current) return;
    const other = side === "now" ? "before" : "now";
    const by = placed.current[other].start - placed.current[side].start;
    stages.current[other]?.move({ start: view.start + by, end: view.end + by }, true);
  };
  useEffect(() => {
    const most = Math.max(long(at.now), long(at.before));
    for (const side of SIDES) {
      const { start } = at[side];
      stages.current[side]?.move({ start: start - most * ROOM, end: start + most * (1 + ROOM) }, true);
    }
  }, [chosen]);
  const step = (side: Side, by: number) =>
    choose({ ...chosen, [side]: Math.max(0, Math.min(begins[side].length - 1, chosen[side] + by)) });
  const difference = long(at.now) - long(at.before);
  return (
    <>
      {SIDES.map((side) => (
        <One
          key={side}
          side={side}
          lanes={lanes[side]}
          begin={at[side]}
          last={begins[side].length - 1}
          place={chosen[side]}
          step={(by) => step(side, by)}
          ready={(stage) => (stages.current[side] = stage)}
          lead={() => (leads.current = side)}
          moved={(view) => moved(side, view)}
        />
      ))}
      <p class="note">
        {at.now.step && at.before.step
          ? `Both begin at the start of their step; this one takes ${signed(difference, "ns")}. `
          : "Both begin at their first event. "}
        Ctrl-wheel zooms, a Shift-drag pans, and the other follows.
      </p>
    </>
  );
}

interface OneProps {
  readonly side: Side;
  readonly lanes: TimelineLanes;
  readonly begin: Begin;
  readonly place: number;
  readonly last: number;
  readonly step: (by: number) => void;
  readonly ready: (stage: Stage) => void;
  readonly lead: () => void;
  readonly moved: (view: Span) => void;
}

function One({ side, lanes, begin, place, last, step, ready, lead, moved }: OneProps) {
  const { api, dark, run, state } = useProps();
  const id = side === "now" ? run : state.base;
  const path = runPath(id, "timeline");
  const root = useRef<HTMLDivElement>(null);
  const stage = useRef<Stage | null>(null);
  const latest = useRef(moved);
  latest.current = moved;
  const [how, arrange] = useState(() => startOf(lanes));
  const [mark, select] = useState<Mark | null>(null);
  const rank = lanes.ranks[0]?.rank ?? 0;
  const facts = useAnswer<EventDetails>(mark ? `${path}/event` : null, mark ? { rank, row: mark.row } : {});
  useLayoutEffect(() => {
    const element = root.current;
    if (!element) return;
    const tiles = api.href(`${path}/tile`) ? new URL(api.href(`${path}/tile`), document.baseURI).href : null;
    const tip = new Hovering(
      element,
      async (of, row) => (await api.json<EventDetails>(`${path}/event`, { rank: of, row })).name,
    );
    const made = new Stage(element, tiles, {
      settled: () => undefined,
      moved: (view) => {
        element.dataset["view"] = `${view.start} ${view.end}`;
        latest.current(view);
      },
      hover: (under, x, y) => tip.show(under, x, y),
      select,
      range: () => undefined,
      zoomed: (view) => made.show(view),
      measures: () => undefined,
      arrange,
      reach: () => undefined,
      trouble: () => undefined,
      height: () => undefined,
      tile: (wanted) => api.bytes(`${path}/tile`, Object.fromEntries(wholeTile(lanes, wanted))),
    });
    stage.current = made;
    made.setTheme(themeOf(element, dark));
    made.arrange(how);
    made.setLanes(lanes, null);
    ready(made);
    return () => {
      tip.close();
      made.close();
    };
  }, []);
  useEffect(() => {
    if (root.current) stage.current?.setTheme(themeOf(root.current, dark));
  }, [dark]);
  useEffect(() => stage.current?.arrange(how), [how]);
  useEffect(() => stage.current?.setSelected(mark, []), [mark]);
  const known = mark && facts.data?.row === mark.row ? facts.data : null;
  const there = hashOf({
    run: id,
    view: "timeline",
    base: "",
    select: { rank: String(rank) },
    params: { in: textOf(begin), ...(mark ? { row: String(mark.row) } : {}) },
    tables: {},
  });
  return (
    <div class="beside">
      <div class="beside-head">
        <b>{side === "now" ? "Now" : "Before"}</b>
        <button class="tool" aria-label={`Previous step ${side}`} disabled={place <= 0} onClick={() => step(-1)}>
          ‹
        </button>
        <span>{begin.step ? `step ${begin.step.step}: ${shown(long(begin), "ns")}` : shown(long(begin), "ns")}</span>
        <button class="tool" aria-label={`Next step ${side}`} disabled={place >= last} onClick={() => step(1)}>
          ›
        </button>
        <span class="beside-said" role="status">
          {known && `${printable(known.name)}, ${shown(known.duration, "ns")}, ${kindWords(known.kind)}`}
        </span>
        <a href={there}>Timeline</a>
      </div>
      <div
        class="tl-stage"
        ref={root}
        tabIndex={0}
        role="application"
        aria-label={`Timeline of the run ${side}: Ctrl-wheel zooms, and the other run follows`}
        style={{ height: `${HEIGHT}px` }}
        onPointerEnter={lead}
        onPointerDown={lead}
        onFocus={lead}
        onKeyDown={(pressed) => {
          const key = pressed.key.toLowerCase();
          if (pressed.ctrlKey || pressed.metaKey || pressed.altKey || !"wsad".includes(key)) return;
          pressed.preventDefault();
          pressed.stopPropagation();
          lead();
          stage.current?.hold(key);
        }}
      />
    </div>
  );
}
