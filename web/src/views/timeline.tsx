/** The timeline: one sentence about the range in view, the lanes, and what is selected. */

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useAnswer } from "../api/ask";
import { runPath } from "../api/client";
import { useKeys } from "../base/keyboard";
import { shown } from "../base/numbers";
import type { ViewProps } from "../base/props";
import { printable, words } from "../base/text";
import { lanesFrom, textOfLanes } from "../draw/timeline/engine/area";
import { AreaTable } from "../draw/timeline/instruments/areatable";
import { wholeTile } from "../draw/timeline/engine/engine";
import { Headline } from "../draw/timeline/beside/headline";
import { type Colouring, colouringOf, COLOURINGS } from "../draw/timeline/engine/hues";
import { Hovering } from "../draw/timeline/stage/hovering";
import { type Arrangement, ARRANGED, arrangedParams } from "../draw/timeline/engine/arrange";
import { HitList } from "../draw/timeline/instruments/hitlist";
import { type Alike, Panel } from "../draw/timeline/beside/panel";
import { openOwn, openPublic } from "../draw/timeline/instruments/perfetto";
import {
  along,
  arrangementOf,
  type Chosen,
  markOf,
  measuresOf,
  ownTime,
  spanOf,
  startOf,
  startView,
  stepsSpan,
  textOf,
  within,
} from "../draw/timeline/engine/places";
import { useSearch } from "../draw/timeline/instruments/searching";
import { NoteList } from "../draw/timeline/instruments/notelist";
import { useNotes } from "../draw/timeline/instruments/notekeeping";
import { flagsOf, newId } from "../draw/timeline/instruments/notes";
import { Border, usePlace } from "../draw/timeline/beside/below";
import { useQueryLanes, withQuery } from "../draw/timeline/instruments/querylane";
import { Side } from "../draw/timeline/beside/side";
import type { Told } from "../draw/timeline/stage/picture";
import { Stage } from "../draw/timeline/stage/stage";
import { Folded, Summary } from "../draw/timeline/beside/summary";
import { kindWords, themeOf } from "../draw/timeline/stage/theme";
import "../draw/timeline/timeline.css";
import { LanesMenu } from "../draw/timeline/instruments/lanesmenu";
import { ColourMenu, Export, Search } from "../draw/timeline/instruments/tools";
import type {
  EventDetails,
  PathRuns,
  RangeAnswer,
  RankOccurrence,
  TimelineLanes,
  TimelineNote,
  TimelineStep,
} from "../api/answers";
import type { Mark, Span } from "../draw/timeline/engine/types";
import { centred, fitted, stepBeside } from "../draw/timeline/engine/view";
import type { TableAnswer } from "../api/answers";
import { Failed, FailedHere, Waiting } from "../frame/states";

export { Beside } from "../draw/timeline/beside/beside";

type Query = Record<string, string>;

/** Ranks beneath one another; the server refuses more. */
const DRAWN = 64;

export function Timeline(props: ViewProps) {
  const { run, version, about, select } = props;
  const all = select.ranks === "all" ? about.ranks.slice(0, DRAWN).join() : undefined;
  const ranks = select.rank ?? all ?? select.ranks ?? String(about.ranks[0] ?? 0);
  const path = runPath(run, "timeline");
  const { cycle } = select;
  const withPath = props.params["path"] === "1" && !props.api.embedded;
  const query = useMemo<Query>(() => (cycle ? { cycle } : {}), [cycle]);
  const lanes = useAnswer<TimelineLanes>(
    `${path}/lanes`,
    { ...query, rank: ranks, ...(withPath && { path: "1" }) },
    version,
  );
  const question = `${path} ${ranks} ${cycle ?? ""} ${withPath ? "path" : ""}`;
  const drawnRanks = useMemo(() => lanes.data?.ranks.map(({ rank }) => rank).join() ?? "", [lanes.data]);
  const asked = useQueryLanes(props, select, drawnRanks);
  const held = useRef({ question: "", lanes: null as TimelineLanes | null });
  if (lanes.data && !lanes.loading) held.current = { question, lanes: lanes.data };
  const known = held.current.question === question;
  if (lanes.error && !known) return <Failed error={lanes.error} again={lanes.again} />;
  if (!held.current.lanes || held.current.question !== question) return <Waiting what="Drawing the timeline" />;
  const shownLanes = asked.answer ? withQuery(held.current.lanes, asked.answer) : held.current.lanes;
  if (!held.current.lanes.ranks.some(({ groups }) => groups.some((group) => group.lanes.length))) {
    return (
      <section class="page">
        <h1>There is nothing to draw: this trace holds no event with a duration.</h1>
        {held.current.lanes.notes.map((note) => (
          <p class="sub">{words(note)}</p>
        ))}
      </section>
    );
  }
  return (
    <>
      {lanes.error && <FailedHere error={lanes.error} again={lanes.again} />}
      {asked.error && <FailedHere error={{ message: `The query draws nothing: ${asked.error}` }} />}
      <Drawn
        key={`${question} ${held.current.lanes.version} ${asked.answer ? props.params["sql"] : ""}`}
        {...props}
        lanes={shownLanes}
        path={path}
        query={query}
      />
    </>
  );
}

interface DrawnProps extends ViewProps {
  readonly lanes: TimelineLanes;
  readonly path: string;
  readonly query: Query;
}

/** What is said of ranks that the others wait for, as the view of all ranks has it. */
function useStragglers(run: string, lanes: TimelineLanes, query: Query): ReadonlyMap<number, string> {
  const many = lanes.ranks.length > 1;
  const { data } = useAnswer<TableAnswer>(many ? `${runPath(run, "analyses")}/stragglers` : null, query);
  return useMemo(() => {
    const place = (name: string) => data?.columns.findIndex((column) => column.name === name) ?? -1;
    const [rank, straggler] = [place("rank"), place("straggler")];
    const late = (data?.rows ?? []).filter((row) => row[straggler] === true);
    return new Map(late.map((row) => [Number(row[rank]), "straggler"]));
  }, [data]);
}

function Drawn({
  run,
  version,
  about: { ranks: allRanks },
  lanes,
  path,
  query,
  select,
  params,
  state,
  api,
  server,
  dark,
  go,
  follow,
}: DrawnProps) {
  const root = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLInputElement>(null);
  const stage = useRef<Stage | null>(null);
  const tip = useRef<Hovering | null>(null);
  const written = useRef("");
  const clicked = useRef<Mark | null>(null);
  const landed = useRef(false);
  const given = useRef(params["in"] ?? params["view"]);
  const begun = useRef(false);
  const drawn = useRef("");
  const warm = useRef(false);
  // What is arranged is in the address, so that a link and a reload show the same, and Back undoes it.
  const how = useMemo(
    () => arrangementOf(lanes, params),
    ARRANGED.map((name) => params[name]),
  );
  const arrange = (next: Arrangement, followed = false) =>
    go({ params: arrangedParams(next, startOf(lanes)) }, { replace: followed || next.filter !== how.filter });
  const [settled, settle] = useState<Span>(() => startView(lanes, params, select.time, select.steps) ?? lanes);
  const [measures, setMeasures] = useState<Span[]>(() => measuresOf(params["measure"]));
  const [said, say] = useState("");
  const [trouble, setTrouble] = useState("");
  const [tall, setTall] = useState(400);
  const [room, setRoom] = useState(600);
  const section = useRef<HTMLElement>(null);
  const narrow = innerWidth <= 640;

  const first = lanes.ranks[0]?.rank ?? 0;
  const range = useMemo(() => spanOf(select.time), [select.time]);
  const area = useMemo(() => lanesFrom(lanes, params["lanes"]), [params["lanes"]]);
  const chosen = useMemo<Chosen | null>(
    () =>
      params["row"] && /^\d+$/.test(params["row"])
        ? { row: Number(params["row"]), rank: Number(params["of"] ?? first) }
        : null,
    [params["row"], params["of"], first],
  );

  // What the picture tells. The functions are made anew with each drawing of the view; the picture keeps the latest.
  const told: Told = {
    settled: (view) => {
      settle(view);
      written.current = textOf(view);
      go({ params: { in: written.current, view: null } }, { replace: true });
    },
    hover: (mark, x, y, spot) => {
      const flag = mark ? null : stage.current?.noteAt(x, y);
      if (flag) return tip.current?.words(printable(flag.text), noteWords(flag), x, y);
      const step = spot?.item.kind === "steps" ? stage.current?.stepAt(spot.item, x) : null;
      if (step) tip.current?.words(`Step ${step.step}`, stepWords(step), x, y);
      else tip.current?.show(mark, x, y);
    },
    select: (mark) => {
      clicked.current = mark;
      stage.current?.setSelected(mark, []);
      go(
        {
          params: {
            row: mark ? String(mark.row) : null,
            of: mark && mark.rank !== first ? String(mark.rank) : null,
          },
        },
        { replace: true },
      );
    },
    range: (span, some) => {
      const within = span && { start: Math.max(0, lanes.start, span.start), end: Math.min(lanes.end, span.end) };
      drawn.current = within && within.end > within.start ? textOf(within) : "";
      const named = drawn.current && textOfLanes(lanes, some);
      go({ select: { time: drawn.current || null }, params: { lanes: named || null } });
    },
    begun: () => {
      if (!api.embedded && !warm.current)
        void api.json(`${path}/area`, { ...query, rank: drawnRanks, time: "0-1" }).catch(() => undefined);
      warm.current = true;
    },
    // An entry of its own in the history: Back zooms out again.
    zoomed: (view) => go({ params: { in: textOf(within(view, lanes)), view: null } }),
    measures: setMeasures,
    note: (id) => openNote(id),
    arrange,
    reach: (mark, lane) => {
      if (!mark) say(`Nothing in view ${lane}`);
      else
        void tip.current
          ?.called(mark)
          .then((name) =>
            say(`${printable(name)}, ${shown(mark.end - mark.start, "ns")}, ${kindWords(mark.kind)}, ${lane}`),
          );
    },
    trouble: setTrouble,
    height: setTall,
    tile: (wanted) => api.bytes(`${path}/tile`, Object.fromEntries(wholeTile(lanes, wanted))),
  };
  const latest = useRef(told);
  latest.current = told;

  useLayoutEffect(() => {
    if (!root.current) return;
    const element = root.current;
    const tiles = api.href(`${path}/tile`) ? new URL(api.href(`${path}/tile`), document.baseURI).href : null;
    const made = new Stage(element, tiles, {
      settled: (view) => latest.current.settled(view),
      hover: (mark, x, y, spot) => latest.current.hover(mark, x, y, spot),
      select: (mark) => latest.current.select(mark),
      range: (span, some) => latest.current.range(span, some),
      begun: () => latest.current.begun?.(),
      zoomed: (view) => latest.current.zoomed(view),
      measures: (all) => latest.current.measures(all),
      note: (id) => latest.current.note?.(id),
      arrange: (next, followed) => latest.current.arrange(next, followed),
      reach: (mark, lane) => latest.current.reach(mark, lane),
      trouble: (failed) => latest.current.trouble(failed),
      height: (height) => latest.current.height(height),
      tile: (wanted) => latest.current.tile(wanted),
    });
    stage.current = made;
    tip.current = new Hovering(
      element,
      async (rank, row) => (await api.json<EventDetails>(`${path}/event`, { ...query, rank, row })).name,
    );
    tip.current.several = lanes.ranks.length > 1;
    made.setTheme(themeOf(element, dark));
    made.arrange(how);
    made.setMeasures(measures);
    made.setLanes(lanes, startView(lanes, params, select.time, select.steps));
    return () => {
      tip.current?.close();
      made.close();
      stage.current = null;
    };
  }, []);

  useEffect(() => {
    if (root.current) stage.current?.setTheme(themeOf(root.current, dark));
  }, [dark]);
  const arranged = useRef(false);
  useEffect(() => stage.current?.arrange(how), [how]);
  // The header and the navigation make room for the picture.
  const full = params["full"] === "1";
  useLayoutEffect(() => {
    document.documentElement.toggleAttribute("data-full", full);
    dispatchEvent(new Event("resize"));
    return () => document.documentElement.removeAttribute("data-full");
  }, [full]);
  const fill = () => go({ params: { full: full ? null : "1" } }, { replace: true });
  useEffect(() => {
    if (arranged.current) go({ params: { measure: measures.map(textOf).join() || null } }, { replace: true });
    arranged.current = true;
  }, [measures]);
  const colouring = colouringOf(params["colour"]);
  const setColouring = (to: Colouring) => go({ params: { colour: to === "kind" ? null : to } }, { replace: true });
  useEffect(() => stage.current?.setColouring(colouring), [colouring]);
  const stragglers = useStragglers(run, lanes, query);
  useEffect(() => stage.current?.setRanks(stragglers), [stragglers]);
  useEffect(() => {
    stage.current?.setRange(range, area);
    // A range or steps chosen in the header are gone to; one that was drawn here is in sight.
    if (range && begun.current && select.time !== drawn.current) stage.current?.fit(range);
  }, [range, area]);
  useEffect(() => {
    const span = begun.current ? stepsSpan(lanes, select.steps) : null;
    if (span) stage.current?.show(fitted(span, lanes, 0.03));
    begun.current = true;
  }, [select.steps]);
  useEffect(() => {
    const asked = params["in"] ?? params["view"];
    const view = spanOf(asked);
    if (view && asked !== written.current && stage.current) stage.current.show(view);
  }, [params["in"], params["view"]]);

  // The room that the window leaves, so that picture and panel are seen together.
  useLayoutEffect(() => {
    const measure = () => {
      const top = section.current?.getBoundingClientRect().top ?? 0;
      setRoom(Math.max(360, innerHeight - top - scrollY));
    };
    measure();
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);

  const event = useAnswer<EventDetails>(
    chosen ? `${path}/event` : null,
    chosen ? { ...query, rank: chosen.rank, row: chosen.row } : {},
  );
  const facts = chosen && event.data?.row === chosen.row ? event.data : null;
  useEffect(() => {
    const at = stage.current;
    if (!at) return;
    if (!chosen) {
      at.setSelected(null, []);
      clicked.current = null;
    } else if (facts) {
      const known = clicked.current;
      const mark = markOf(lanes, chosen, facts);
      // Work beside replays has a place in the folded lane, too.
      if (known?.row === chosen.row && known.rank === chosen.rank && known.lane === mark.lane) mark.depth = known.depth;
      at.setSelected(mark, facts.arrows);
      say(`Selected: ${printable(facts.name)}, ${shown(facts.duration, "ns")}`);
      if (!known && !landed.current && !given.current) at.show(fitted(mark, lanes, 5), true);
      if (known?.row !== chosen.row || known.rank !== chosen.rank) at.reveal(mark);
      clicked.current = mark;
      // The sheet covers the lower half: the lanes come to the upper one.
      if (narrow) requestAnimationFrame(() => root.current?.scrollIntoView({ block: "start", behavior: "smooth" }));
    }
    landed.current ||= !chosen || !!facts;
  }, [chosen, facts]);

  const pick = useCallback(
    (rank: number, row: number) =>
      go({ params: { row: String(row), of: rank !== first ? String(rank) : null } }, { replace: true }),
    [go, first],
  );

  const spokenRank = chosen?.rank ?? first;
  const chosenParams = (rank: number, row: number) => ({
    row: String(row),
    of: rank !== first ? String(rank) : null,
  });
  const search = useSearch({
    api,
    path,
    query,
    rank: spokenRank,
    start: params["q"] ?? "",
    args: params["args"] === "1",
    from: chosen?.row ?? null,
    pick,
    keep: (q, args) => go({ params: { q: q || null, args: args ? "1" : null } }, { replace: true }),
  });
  const { text, found, type, find, clear: clearSearch } = search;
  const beside = params["side"] ?? "";
  const setBeside = (side: string) => go({ params: { side: side || null } }, { replace: true });
  const [, sameRank, sameRow] = /^same-(\d+)-(\d+)$/.exec(beside) ?? [];
  const same = sameRank !== undefined && sameRow !== undefined ? { rank: sameRank, row: sameRow } : null;
  const drawnRanks = lanes.ranks.map(({ rank }) => rank).join();
  useEffect(() => {
    stage.current?.setMatches(
      text && found ? { codes: found.codes, rows: found.rows, buckets: found.matches_by_bucket } : null,
    );
  }, [found, text]);

  const notes = useNotes({ api, run, params, go });
  const [draft, setDraft] = useState<TimelineNote | null>(null);
  const current = draft?.id ?? params["note"] ?? "";
  const drafted = useMemo(
    () => (draft ? [...notes.all.filter(({ id }) => id !== draft.id), draft] : notes.all),
    [notes.all, draft],
  );
  useEffect(() => stage.current?.setNotes(flagsOf(drafted, lanes, current, dark)), [drafted, lanes, current, dark]);
  const openNote = (id: string) => {
    const note = notes.all.find((each) => each.id === id);
    if (!note) return;
    go(
      { params: { note: id, side: "notes", ...(note.row != null && chosenParams(note.rank, note.row)) } },
      { replace: true },
    );
    const [flag] = flagsOf([note], lanes, id, dark);
    const at = stage.current;
    if (flag && at) at.show(flag.end > flag.start ? fitted(flag, lanes, 0.5) : centred(at.window, flag.start, lanes));
  };
  const addNote = () => {
    const at = stage.current;
    if (!at) return;
    const mark = clicked.current;
    const rank = mark?.rank ?? spokenRank;
    const span = mark ?? range ?? { start: at.instant(), end: at.instant() };
    const own = (time: number) => Math.round(time) - (lanes.ranks.find((one) => one.rank === rank)?.offset ?? 0);
    const row = mark?.row ?? null;
    setDraft({
      id: newId(),
      rank,
      start: own(span.start),
      end: own(span.end),
      text: "",
      colour: "blue",
      row,
      revision: 0,
    });
    setBeside("notes");
  };

  const seen = range ?? within(settled, lanes);
  // The numbers are of one rank, in its own time: that of the selected event, else the first.
  const spoken = chosen?.rank ?? first;
  const asked = textOf(ownTime(lanes, spoken, seen));
  const about = useAnswer<RangeAnswer>(spanOf(asked) ? `${path}/range` : null, {
    ...query,
    rank: spoken,
    time: asked,
    ...(colouring === "module" && !api.embedded && { colour: colouring }),
  });

  const withPath = params["path"] === "1" && !api.embedded;
  const setPath = (on: boolean) => go({ params: { path: on ? "1" : null } }, { replace: true });
  const pathFacts = useAnswer<PathRuns>(withPath && spanOf(asked) ? `${path}/path` : null, {
    ...query,
    rank: spoken,
    time: asked,
  });
  useEffect(() => {
    const { data } = pathFacts;
    stage.current?.setPath(withPath && data ? { rank: spoken, runs: data.runs } : null);
    if (withPath && data && data.total > data.runs.length)
      say(`The line of the critical path has the ${data.runs.length} longest of ${data.total} runs; its lane has all`);
  }, [pathFacts.data, withPath, spoken]);

  // One thing at a time, the innermost first.
  const clear = () => {
    say("");
    if (chosen) told.select(null);
    else if (measures.length) {
      stage.current?.setMeasures([]);
      setMeasures([]);
    } else if (range) told.range(null, null);
    else if (text) clearSearch();
  };
  const step = (by: 1 | -1) => {
    const at = stage.current;
    const own = lanes.ranks.find(({ rank }) => rank === (chosen?.rank ?? first));
    const next =
      at &&
      own &&
      stepBeside(
        own.steps.map((one) => ({ ...one, start: one.start + own.offset, end: one.end + own.offset })),
        at.window,
        by,
      );
    if (!next) return;
    at.show(fitted(next, lanes, 0.02));
    say(`Step ${next.step}`);
  };
  const alike = (which: Alike) => {
    if (!chosen || api.embedded) return;
    const { rank, row } = chosen;
    const time = textOf({ start: Math.max(0, lanes.start), end: lanes.end });
    api.json<RankOccurrence | null>(`${path}/occurrence`, { ...query, rank, of: rank, row, which, time }).then(
      (same) => {
        if (!same) return;
        pick(rank, same.row);
        say(`${shown(same.place + 1, "")} of ${shown(same.total, "")} of this name`);
      },
      () => undefined,
    );
  };
  /** Along an arrow of the selected event: to what follows from it, or to its cause. */
  const flow = (way: "next" | "previous") => {
    if (!facts || !chosen) return;
    const row = along(facts, way);
    if (row === null) say(way === "next" ? "No arrow leads on" : "No arrow leads here");
    else pick(chosen.rank, row);
  };
  const hold = (key: string) => () => stage.current?.hold(key);
  useKeys(
    {
      w: { does: "zoom in", run: hold("w") },
      s: { does: "zoom out", run: hold("s") },
      a: { does: "pan left", run: hold("a") },
      d: { does: "pan right", run: hold("d") },
      f: {
        does: "fit the selected range or event, else the whole run",
        run: () => stage.current?.fit(range ?? stage.current.current),
      },
      "0": { does: "the whole run", run: () => stage.current?.fit(null) },
      z: { does: "full height: without header and navigation, and back", run: fill },
      m: { does: "measure the selection, or from here to there", run: () => stage.current?.measureHere() },
      r: {
        does: "select the range in view, or of the selected event",
        run: () => told.range(clicked.current ?? stage.current?.window ?? null, null),
      },
      "Shift+R": {
        does: "the same in the lane of the mark or the pointer alone",
        run: () => told.range(clicked.current ?? stage.current?.window ?? null, stage.current?.areaHere() ?? null),
      },
      "/": { does: "search", run: () => box.current?.select() },
      n: { does: "next found", run: () => find("next") },
      p: { does: "previous found", run: () => find("previous") },
      c: {
        does: "colour by kind, by name, by module",
        run: () => {
          const next = COLOURINGS.filter((each) => each !== "module" || !api.embedded);
          setColouring(next[(next.indexOf(colouring) + 1) % next.length] ?? "kind");
        },
      },
      k: { does: "the critical path: a lane, and a line through the others", run: () => setPath(!withPath) },
      t: { does: "write a note on the selected event or range, or at the pointer", run: addNote },
      h: { does: "all that was found, in a list", run: () => setBeside(beside === "hits" ? "" : "hits") },
      ".": { does: "next event of the same name", run: () => alike("next") },
      ",": { does: "previous event of the same name", run: () => alike("previous") },
      ">": { does: "the longest event of the same name", run: () => alike("longest") },
      "Shift+N": () => find("previous"),
      j: {
        does: "along the arrow: to what it launched, to what waits for it, to its backward pass",
        run: () => flow("next"),
      },
      "Shift+J": { does: "back along the arrow, to the cause", run: () => flow("previous") },
      "[": { does: "previous step", run: () => step(-1) },
      "]": { does: "next step", run: () => step(1) },
      Escape: { does: "clear the selection, then measures, the range, the search", run: clear },
      "arrows, Enter": { does: "from mark to mark, and select it (in the picture)", run: () => undefined },
      "space, L, X": {
        does: "fold, pin or hide the lane of the mark or the pointer (in the picture)",
        run: () => undefined,
      },
      "Shift-arrows, + −": { does: "move that lane up or down; higher or lower rows", run: () => undefined },
      "drag a label": {
        does: "move a lane, a group or a rank; at the labels' border: their width",
        run: () => undefined,
      },
      drag: { does: "select an area: a range of time in the lanes that it covers", run: () => undefined },
      "Ctrl-drag": { does: "zoom to a box", run: () => undefined },
      "Shift-drag": { does: "pan", run: () => undefined },
      "Ctrl-wheel": { does: "zoom at the pointer", run: () => undefined },
    },
    "Timeline",
  );
  // These scroll the page elsewhere, so they hold in the picture only.
  const keys: Record<string, () => void> = {
    ArrowRight: () => void stage.current?.step("next"),
    ArrowLeft: () => void stage.current?.step("previous"),
    ArrowUp: () => void stage.current?.step("up"),
    ArrowDown: () => void stage.current?.step("down"),
    Enter: () => stage.current?.enter(),
    " ": () => stage.current?.toggleHere("folded"),
    l: () => stage.current?.toggleHere("pinned"),
    x: () => stage.current?.toggleHere("hidden"),
    "Shift+ArrowUp": () => stage.current?.nudgeHere(-1),
    "Shift+ArrowDown": () => stage.current?.nudgeHere(1),
    "+": () => stage.current?.resizeHere(1),
    "=": () => stage.current?.resizeHere(1),
    "-": () => stage.current?.resizeHere(-1),
  };

  const open = async () => {
    const cut = { ...query, rank: spoken, time: textOf(ownTime(lanes, spoken, seen)) };
    const cutPath = path.replace(/\/timeline$/, "/cut");
    if (server.features.perfetto) openOwn(api.href(cutPath, cut));
    else await openPublic(api.bytes(cutPath, cut), `Kinetoscope: rank ${spoken}`);
  };
  const save = async () => {
    const picture = await stage.current?.picture();
    if (!picture) return;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(picture);
    link.download = "timeline.png";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const below = usePlace(room);
  const long = shown(seen.end - seen.start, "ns");
  const rankWords = lanes.ranks.length > 1 ? `${lanes.ranks.length} ranks` : `rank ${first}`;
  const answer = about.data;
  // A report holds no events to sum up.
  const table = !!range && !api.embedded;
  const summed = !table && !chosen && !api.embedded;
  return (
    <section class="tl" ref={section} style={narrow ? {} : { height: `${room}px` }}>
      <div class="tl-head">
        <Headline
          answer={answer}
          long={long}
          selected={!!range}
          ranks={rankWords}
          spoken={lanes.ranks.length > 1 ? `rank ${spoken}` : ""}
          notes={lanes.notes}
          dark={dark}
          colouring={colouring}
        />
        <div class="tl-tools">
          {!api.embedded && (
            <Search
              search={search}
              box={box}
              leave={() => root.current?.focus()}
              list={{ open: beside === "hits", toggle: () => setBeside(beside === "hits" ? "" : "hits") }}
            />
          )}
          <ColourMenu
            colouring={colouring}
            set={setColouring}
            embedded={api.embedded}
            path={withPath}
            sql={api.embedded ? "" : (params["sql"] ?? "")}
            dropSql={() => go({ params: { sql: null } }, { replace: true })}
            setPath={setPath}
          />
          <button
            class="pill"
            aria-pressed={beside === "notes"}
            data-tip="Notes on instants and ranges (T writes one)"
            onClick={() => setBeside(beside === "notes" ? "" : "notes")}
          >
            <i>Notes</i>
            <span>{shown(notes.all.length, "")}</span>
          </button>
          {allRanks.length > 1 && (
            <button
              class="tl-tool"
              aria-pressed={lanes.ranks.length > 1}
              data-tip="Each rank as a line, on one clock"
              onClick={() =>
                go({
                  select: { ranks: lanes.ranks.length > 1 ? null : "all", rank: null },
                  params: { in: null, view: null, row: null, of: null },
                })
              }
            >
              All ranks
            </button>
          )}
          <LanesMenu lanes={lanes} how={how} set={arrange} />
          <button class="tl-tool" aria-pressed={full} aria-label="Full height" data-tip="Z: full height" onClick={fill}>
            ⤢
          </button>
          <Export
            own={!!server.features.perfetto}
            what={`${long} of rank ${spoken}`}
            open={api.embedded ? null : open}
            save={() => void save()}
          />
        </div>
      </div>
      <div class="tl-middle">
        <div
          class="tl-stage"
          ref={root}
          tabIndex={0}
          role="application"
          aria-label={`Timeline of ${rankWords}: lanes of host threads and device streams over time. Arrow keys move from mark to mark, Enter selects, W and S zoom, A and D pan; question mark lists all keys.`}
          style={narrow ? { height: `${Math.min(tall, Math.max(420, innerHeight * 0.7))}px` } : {}}
          onKeyDown={(pressed) => {
            const name = pressed.shiftKey && pressed.key.startsWith("Arrow") ? `Shift+${pressed.key}` : pressed.key;
            const act = pressed.ctrlKey || pressed.metaKey || pressed.altKey ? undefined : keys[name];
            if (!act) return;
            pressed.preventDefault();
            pressed.stopPropagation();
            act();
          }}
        />
        {beside === "notes" && (
          <Side title="Notes" close={() => (setDraft(null), setBeside(""))}>
            <NoteList
              {...{ notes, dark, draft, setDraft, current }}
              embedded={api.embedded}
              several={lanes.ranks.length > 1}
              open={({ id }) => openNote(id)}
              add={addNote}
            />
          </Side>
        )}
        {(beside === "hits" || same) && !api.embedded && (
          <Side title={same ? "Events of this name" : "Hits"} close={() => setBeside("")}>
            <HitList key={beside} {...{ api, path, query, version, search, same, pick }} ranks={drawnRanks} />
          </Side>
        )}
      </div>
      {trouble && (
        <p class="tl-trouble">
          {api.embedded
            ? words("This report keeps the timeline as fine as this; `kinetoscope view` shows every event.")
            : `Some of the picture could not be fetched and is asked for again: ${printable(trouble)}`}
        </p>
      )}
      <p class="tl-unseen" aria-live="polite">
        {said}
        {measures.length > 0
          ? `, ${measures.length} measured: ${measures.map((one) => shown(one.end - one.start, "ns")).join(", ")}`
          : ""}
      </p>
      {!narrow && (table || (chosen ? !!facts : summed && !below.folded)) && <Border {...below} />}
      <div class={table ? "tl-below" : "tl-alone-below"}>
        {table && range && (
          <AreaTable
            path={path}
            asked={{
              ...query,
              rank: lanes.ranks.map(({ rank }) => rank).join(),
              time: textOf(range),
              lanes: textOfLanes(lanes, area) || undefined,
            }}
            length={range.end - range.start}
            lanes={lanesWords(area?.length ?? 0, rankWords)}
            height={narrow ? null : below.area}
            params={params}
            tables={state.tables}
            version={version}
            go={go}
            chosen={chosen}
            pick={pick}
            widen={area && (() => go({ params: { lanes: null } }))}
            close={() => told.range(null, null)}
          />
        )}
        {facts && chosen && (
          <Panel
            height={narrow ? null : table ? below.area : below.panel}
            facts={facts}
            rank={chosen.rank}
            lanes={lanes}
            path={path}
            query={query}
            server={server}
            embedded={api.embedded}
            pick={pick}
            alike={api.embedded ? null : alike}
            list={() => setBeside(`same-${chosen.rank}-${chosen.row}`)}
            follow={follow}
            close={() => told.select(null)}
          />
        )}
        {summed && below.folded && !narrow && <Folded top={answer?.top ?? []} open={below.open} />}
        {summed && (!below.folded || narrow) && (
          <Summary
            top={answer?.top ?? []}
            colouring={colouring}
            dark={dark}
            height={narrow ? null : below.summary}
            pick={(row) => pick(spoken, row)}
            find={type}
            fold={below.fold}
          />
        )}
      </div>
      {chosen && event.error && (
        <p class="tl-trouble" role="status">
          {clicked.current?.name &&
            `${printable(clicked.current.name)}, ${shown(clicked.current.end - clicked.current.start, "ns")}. `}
          {words(`${event.error.message} ${event.error.hint}`)}
        </p>
      )}
    </section>
  );
}

const lanesWords = (some: number, ranks: string): string =>
  some ? `${some} lane${some > 1 ? "s" : ""}` : `all lanes of ${ranks}`;
const noteWords = ({ start, end }: Span): string => (end > start ? shown(end - start, "ns") : "");

/** How long a step is, as all views say it; and how long the host was in it, where that is another time. */
function stepWords({ start, end, host_start: from, host_end: to, steady }: TimelineStep): string {
  const host = from != null && to != null && to - from !== end - start ? `${shown(to - from, "ns")} on the host` : "";
  return [shown(end - start, "ns"), host, steady === false ? "not among the steady steps" : ""]
    .filter(Boolean)
    .join("; ");
}
