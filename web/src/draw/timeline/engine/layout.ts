/** Where each lane stands: ranks under one another, groups in them, lanes in those; folded, pinned, scrolled. */

import { type Arrangement, heightOf, keyOf, shownLanes } from "./arrange";
import { STRIP } from "./flags";
import type { TimelineGroup, RankLanes, TimelineLane, TimelineLanes } from "../../../api/answers";
import type { GroupKind, Item, Layout } from "./types";

/** Of a lane: the depths that hold something in view, and the one from which on rows are shown. */
export interface Used {
  depths: readonly number[];
  from: number;
}

/** What is known beside the lanes themselves: what of them is in view, by key of lane, and what is said of ranks. */
export interface Known {
  used: ReadonlyMap<string, Used>;
  ranks: ReadonlyMap<number, string>;
  /** Notes have a strip above the lanes. */
  notes?: boolean;
}

export const UNKNOWN: Known = { used: new Map(), ranks: new Map() };

/** Deeper lanes show this many rows until they are asked for the rest. */
export const ROWS = 12;

interface Size {
  pitch: number;
  bar: number;
  gap: number;
}

const SIZES: Record<GroupKind, Size> = {
  steps: { pitch: 20, bar: 18, gap: 6 },
  counter: { pitch: 28, bar: 26, gap: 6 },
  host: { pitch: 15, bar: 14, gap: 8 },
  device: { pitch: 21, bar: 20, gap: 4 },
  extra: { pitch: 21, bar: 20, gap: 4 },
};
/** Of a device with many streams, of many counters, and of what is folded or holds nothing in view. */
const DENSE: Size = { pitch: 15, bar: 14, gap: 2 };
const THIN: Size = { pitch: 12, bar: 8, gap: 6 };
const FEW_STREAMS = 4;
const FEW_COUNTERS = 2;
/** Steps come with the lanes themselves; their ruler is one line. */
const RULER: TimelineLane = {
  id: "steps",
  title: "steps",
  depth: 1,
  sort: 0,
  kind: "steps",
  events: 0,
  outer: 0,
  slices: null,
  unit: "",
  max: null,
};

const RANK = 28;
const THINNEST_RANK = 7;
/** px that a title takes. */
const TITLE = 13;
const GROUP = 22;
const LABEL = 18;

/** What the one line of a rank is made of: the streams of its devices; without any, its main thread and what it sends. */
export function lineOf({ groups }: RankLanes): { lanes: readonly TimelineLane[]; depth: number } {
  const of = (kind: GroupKind, layer: string) =>
    groups.filter((group) => group.kind === kind).flatMap(({ lanes }) => lanes.filter(({ id }) => id.endsWith(layer)));
  const streams = of("device", "w");
  if (streams.length) return { lanes: streams, depth: 0 };
  const main = groups.find(({ kind }) => kind === "host")?.lanes[0];
  // Beneath the frames around the loop and the marks of its steps.
  const depth = main ? Math.min(main.outer + 1, main.depth - 1) : 0;
  return { lanes: main ? [main, ...of("host", "o").filter(({ id }) => id !== main.id)] : [], depth };
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: Math.max(0, to - from) }, (_, at) => from + at);

/** The depths of a lane that are to be seen, and how many hold something at all. */
function depthsOf(
  lane: TimelineLane,
  deep: number,
  full: boolean,
  used: Used | undefined,
): { depths: number[]; all: number } {
  if (lane.slices !== null) {
    const every = [...range(lane.slices + 1, deep), ...range(0, lane.slices)];
    const depths = used ? every.filter((depth) => used.depths.includes(depth)) : every;
    return { depths: depths.length ? depths : [0], all: depths.length };
  }
  const outer = Math.min(lane.outer, deep - 1);
  const every = used?.depths.length ? used.depths : range(0, deep);
  const from = full ? 0 : used ? used.from : outer > 2 ? outer : 0;
  return { depths: every.filter((depth) => depth >= from), all: every.length };
}

function sizeOf(group: TimelineGroup, thin: boolean): Size {
  if (thin) return THIN;
  if (group.kind === "device" && group.lanes.length > FEW_STREAMS) return DENSE;
  if (group.kind === "counter" && leading(group).size > FEW_COUNTERS) return DENSE;
  return SIZES[group.kind];
}

function laneItem(
  rank: number,
  offset: number,
  group: TimelineGroup,
  lane: TimelineLane,
  how: Arrangement,
  used: Used | undefined,
  narrow: boolean,
): Item {
  const key = keyOf.lane(rank, lane.id);
  const deep = group.kind === "counter" || group.kind === "steps" ? 1 : Math.max(1, lane.depth);
  const folded = how.folded.has(key) && deep > 1;
  const full = how.full.has(key);
  const idle = group.kind === "host" && used !== undefined && used.depths.length === 0;
  const replays = lane.slices !== null;
  const { depths, all } =
    replays && folded
      ? { depths: [lane.slices ?? 0], all: 1 }
      : idle
        ? { depths: [0], all: 1 }
        : depthsOf(lane, deep, full, used);
  const most = folded ? 1 : full || replays || depths.length <= ROWS + 2 ? depths.length : ROWS;
  const size = sizeOf(group, (folded && !replays) || idle);
  const pitch = Math.max(4, Math.round(size.pitch * heightOf(how, key)));
  const { gap } = size;
  const bar = Math.max(3, pitch - size.pitch + size.bar);
  const rows = Math.max(1, most);
  const hidden = folded ? 0 : all - rows;
  return {
    ...BLANK,
    key,
    toggles: key,
    what: "lane",
    kind: group.kind,
    rank,
    offset,
    lane: lane.id,
    title: lane.title,
    height: (narrow && group.kind !== "steps" ? LABEL : 0) + rows * pitch + (hidden ? LABEL : 0) + gap,
    inset: narrow && group.kind !== "steps" ? LABEL : 0,
    rows,
    depths: depths.length ? depths : [0],
    pitch,
    bar,
    hidden,
    folded,
    foldable: deep > 1,
    pinned: how.pinned.has(key),
    unit: lane.unit,
    max: lane.max ?? 0,
    colour: lane.kind ?? "",
  };
}

const BLANK = {
  lane: "",
  top: 0,
  inset: 0,
  rows: 0,
  depths: [] as readonly number[],
  hidden: 0,
  pinned: false,
  indent: 0,
  unit: "",
  max: 0,
  colour: "",
  note: "",
  quiet: false,
  line: null,
};

function header(
  what: "rank" | "group",
  key: string,
  rank: number,
  offset: number,
  kind: GroupKind | "rank",
  title: string,
  folded: boolean,
): Item {
  const height = what === "rank" ? RANK : GROUP;
  const shape = { height, pitch: height, bar: height, folded, foldable: true };
  return { ...BLANK, key, toggles: key, what, kind, rank, offset, title, ...shape };
}

/** A rank's header, with all that its devices do in one line. */
function rankHeader(own: RankLanes, folded: boolean, narrow: boolean, note: string, tall: number): Item {
  const usual = header("rank", keyOf.rank(own.rank), own.rank, own.offset, "rank", `Rank ${own.rank}`, folded);
  const height = folded ? tall : RANK;
  const item = { ...usual, height, pitch: height, bar: height };
  const { lanes, depth } = lineOf(own);
  const line = { lanes: lanes.map(({ id }) => id), depth };
  const inset = narrow ? LABEL : 0;
  return { ...item, note, inset, height: item.height + inset, line };
}

/** Of the line of a rank: where computation is drawn, and communication beneath it. */
export function stripsOf({ height, inset }: Item): Record<"upper" | "lower", { from: number; tall: number }> {
  const all = height - inset;
  const edge = all >= 14 ? Math.round(all * 0.18) : 1;
  const tall = Math.max(3, Math.round(all * 0.4));
  const next = edge + tall + (all >= 14 ? 1 : 0);
  return {
    upper: { from: edge, tall },
    lower: { from: next, tall: Math.max(2, Math.min(all - next, Math.round(all * 0.22))) },
  };
}

/** What is seen of counters that are folded: the first kind of them, for each device. */
function leading(group: TimelineGroup): ReadonlySet<string> {
  const kind = (id: string) => id.split(".", 1)[0];
  const first = group.kind === "counter" ? group.lanes[0] : undefined;
  return new Set(first ? group.lanes.filter(({ id }) => kind(id) === kind(first.id)).map(({ id }) => id) : []);
}

/** Headers stand where there is something to tell apart: few streams are named with their device instead. */
function isHeaded(group: TimelineGroup, shut: boolean): boolean {
  if (group.kind === "steps" || group.lanes.length < 2) return false;
  if (group.kind === "counter") return !shut || !leading(group).size;
  return group.kind !== "device" || shut || group.lanes.length > FEW_STREAMS;
}

/** Ranks are named one by one, not lanes in them. */
const RANKS_ALONE = /^(?:\s*(?:rank \d+)?\s*,?)*$/i;

/** All items in order, whether pinned or not; `tall` is the height of a rank's line. */
function items(
  lanes: TimelineLanes,
  how: Arrangement,
  narrow: boolean,
  known: Known,
  many: boolean,
  tall: number,
): Item[] {
  const found: Item[] = [];
  for (const own of lanes.ranks) {
    const { rank, groups } = own;
    const folded = many && how.folded.has(keyOf.rank(rank)) && RANKS_ALONE.test(how.filter);
    if (many) found.push(rankHeader(own, folded, narrow, known.ranks.get(rank) ?? "", tall));
    for (const group of groups) found.push(...ofGroup(lanes, own, group, folded, how, narrow, known));
  }
  return found;
}

function ofGroup(
  lanes: TimelineLanes,
  own: RankLanes,
  group: TimelineGroup,
  folded: boolean,
  how: Arrangement,
  narrow: boolean,
  known: Known,
): Item[] {
  const { rank, offset, steps } = own;
  const key = keyOf.group(rank, group.id);
  const shut = how.folded.has(key) && !how.filter;
  const headed = isHeaded(group, shut);
  const lead = shut ? leading(group) : new Set<string>();
  const found: Item[] = [];
  if (headed && !folded)
    found.push(header("group", key, rank, offset, group.kind, `${group.title} · ${group.lanes.length}`, shut));
  let first = true;
  for (const lane of group.kind === "steps" ? (steps?.length ? [RULER] : []) : group.lanes) {
    const item = laneItem(rank, offset, group, lane, how, known.used.get(keyOf.lane(rank, lane.id)), narrow);
    const asked = item.pinned || (group.kind === "steps" && own === lanes.ranks[0]);
    const shown = asked || (!folded && (lead.has(lane.id) || !(shut && (headed || group.kind === "counter"))));
    if (!shown) continue;
    const named = group.kind === "device" && group.title !== lane.title && (!headed || item.pinned);
    const rest = group.lanes.length - lead.size;
    // The first of folded counters unfolds the others: they need no header of their own.
    const opens = first && lead.has(lane.id) && rest > 0;
    found.push({
      ...item,
      title: named ? `${group.title.split(" · ", 1)[0]} · ${lane.title}` : lane.title,
      indent: headed ? 8 : 0,
      ...(opens ? { toggles: key, foldable: true, folded: true, note: `${rest} more` } : {}),
    });
    first = false;
  }
  return found;
}

function placed(list: Item[]): [Item[], number] {
  // The title of a thin line reaches above it.
  let top = (list[0]?.height ?? TITLE) < TITLE ? TITLE / 2 - 2 : 0;
  const done = list.map((item) => {
    const here = { ...item, top };
    top += item.height;
    return here;
  });
  return [done, top];
}

/** Deep lanes show more of their rows where there is room for them: the first lanes first. */
function grown(list: readonly Item[], room: number): Item[] {
  let left = room - list.reduce((sum, { height }) => sum + height, 0);
  return list.map((item) => {
    const waiting = item.folded || item.what !== "lane" ? 0 : item.depths.length - item.rows;
    const more = Math.max(0, Math.min(waiting, Math.floor(left / item.pitch)));
    if (!more) return item;
    // With nothing left to ask for, the line that asks goes too.
    const line = item.hidden === more ? LABEL : 0;
    const height = item.height + more * item.pitch - line;
    left -= height - item.height;
    return { ...item, rows: item.rows + more, hidden: item.hidden - more, height };
  });
}

/** Lines of many ranks are thin enough to be seen together: as high as `room` allows. */
function lineHeight(ranks: number, room: number, narrow: boolean): number {
  const each = Math.floor((room - SIZES.steps.pitch - SIZES.steps.gap) / Math.max(1, ranks));
  return narrow || room <= 0 ? RANK : Math.min(RANK, Math.max(THINNEST_RANK, each));
}

/** Of lines too thin for a title each, every so many have one: stragglers first. */
function named(list: readonly Item[]): Item[] {
  let next = -Infinity;
  const loud: number[] = [];
  for (const { what, note, top } of list)
    if (what === "rank" && note && top >= (loud.at(-1) ?? -Infinity) + TITLE) loud.push(top);
  return list.map((item) => {
    if (item.what !== "rank" || item.height >= TITLE) return item;
    const free = item.top >= next && loud.every((top) => Math.abs(top - item.top) >= TITLE);
    const shown = loud.includes(item.top) || (!item.note && free);
    if (shown) next = item.top + TITLE;
    return shown ? item : { ...item, quiet: true };
  });
}

/** `room` is what the lanes may take before they must be scrolled. */
export function layout(
  every: TimelineLanes,
  how: Arrangement,
  width: number,
  room = 0,
  known: Known = UNKNOWN,
): Layout {
  const narrow = width < 600;
  const lanes = shownLanes(every, how);
  const sole = every.ranks.length === 1;
  const tall = lineHeight(lanes.ranks.length, room, narrow);
  const all = grown(items(lanes, how, narrow, known, !sole, tall), room);
  const ruler = keyOf.lane(lanes.ranks[0]?.rank ?? 0, RULER.id);
  // The ruler of steps of the first rank stays in sight.
  const stays = (item: Item) => item.what === "lane" && (item.pinned || item.key === ruler);
  const label = (item: Item): Item =>
    !sole && stays(item)
      ? { ...item, title: `${item.title} · rank ${item.rank}`, indent: 0 }
      : { ...item, indent: item.pinned ? 0 : item.indent };
  const [pinned, pinnedHeight] = placed(all.filter(stays).map(label));
  const [placedItems, height] = placed(all.filter((item) => !stays(item)));
  const scrolled = named(placedItems);
  const minimapHeight = 28;
  const axisTop = minimapHeight + 2;
  const axisHeight = 22;
  const notesTop = axisTop + axisHeight + 2;
  const notesHeight = known.notes ? STRIP : 0;
  const lanesTop = notesTop + notesHeight;
  return {
    pinned,
    scrolled,
    pinnedHeight,
    height,
    gutter: narrow ? 0 : Math.min(width / 2, how.labels || (width > 1000 ? 184 : 140)),
    minimapTop: 0,
    minimapHeight,
    axisTop,
    axisHeight,
    notesTop,
    notesHeight,
    lanesTop,
    scrollTop: lanesTop + pinnedHeight,
  };
}

/** The depths whose rows are drawn. */
export const drawnDepths = (item: Item): readonly number[] => item.depths.slice(0, item.rows);

/** The arrangement with the row of a mark unfolded; the same one if it is shown already. */
export function unfolded(
  lanes: TimelineLanes,
  how: Arrangement,
  at: Layout,
  mark: { rank: number; lane: string; depth: number },
): Arrangement {
  const key = keyOf.lane(mark.rank, mark.lane);
  const item = [...at.pinned, ...at.scrolled].find((one) => one.key === key);
  if (item && drawnDepths(item).includes(mark.depth)) return how;
  const group = lanes.ranks
    .find(({ rank }) => rank === mark.rank)
    ?.groups.find((one) => one.lanes.some(({ id }) => id === mark.lane));
  if (!group) return how;
  const [folded, hidden] = [new Set(how.folded), new Set(how.hidden)];
  for (const each of [keyOf.rank(mark.rank), keyOf.group(mark.rank, group.id), key]) {
    folded.delete(each);
    hidden.delete(each);
  }
  const next = { ...how, folded, hidden, full: new Set([...how.full, key]) };
  const seen = shownLanes(lanes, next).ranks.some(
    (own) => own.rank === mark.rank && own.groups.some((each) => each.lanes.some(({ id }) => id === mark.lane)),
  );
  return seen ? next : { ...next, filter: "" };
}

export interface Spot {
  item: Item;
  /** Row of marks in the lane; −1 beside them. */
  depth: number;
  /** On the line that unfolds the rest of the rows. */
  more: boolean;
  /** Within its part of the canvas: where the item begins. */
  top: number;
  /** Of the line of a rank: computation, or communication beneath it. */
  strip: "upper" | "lower" | null;
}

/** The header of the rank whose lanes are at the top, where it is scrolled out of sight: it stays there. */
export function stuckRank(at: Layout, scroll: number): Item | null {
  const rank = at.scrolled.findLast((item) => item.what === "rank" && item.top <= scroll);
  return rank && rank.top < scroll ? rank : null;
}

/** Where the label of a lane stands: at its top, or at the top of what is seen of it. */
export function labelTop(at: Layout, item: Item, top: number, scroll: number): number {
  const edge = item.pinned ? at.lanesTop : at.scrollTop + (stuckRank(at, scroll)?.height ?? 0);
  return Math.max(top, Math.min(edge, top + item.height - 30));
}

/** What stands at `y` of the canvas. */
export function spotAt(at: Layout, y: number, scroll: number): Spot | null {
  const upper = y < at.scrollTop;
  const stuck = upper ? null : stuckRank(at, scroll);
  if (stuck && y < at.scrollTop + stuck.height)
    return { item: stuck, depth: -1, more: false, top: at.scrollTop, strip: null };
  const inside = upper ? y - at.lanesTop : y - at.scrollTop + scroll;
  const list = upper ? at.pinned : at.scrolled;
  const item = list.find((one) => inside >= one.top && inside < one.top + one.height);
  if (!item || inside < 0) return null;
  const top = upper ? at.lanesTop + item.top : at.scrollTop + item.top - scroll;
  const within = inside - item.top - item.inset;
  const depth = item.what === "lane" && within >= 0 ? Math.floor(within / item.pitch) : -1;
  const marked = depth >= 0 && depth < item.rows && within - depth * item.pitch < item.bar + 1;
  return {
    item,
    depth: marked ? (item.depths[depth] ?? -1) : -1,
    more: item.hidden > 0 && !item.folded && within >= item.rows * item.pitch,
    top,
    strip: !item.line || within < 0 ? null : within < stripsOf(item).lower.from ? "upper" : "lower",
  };
}

/** Where the row of a lane is drawn, in canvas pixels; null if the lane is not shown. Rows folded away: the last one shown. */
export function rowAt(
  at: Layout,
  rank: number,
  lane: string,
  depth: number,
  scroll: number,
): { top: number; bar: number; item: Item; pinned: boolean } | null {
  for (const [list, from, pinned] of [
    [at.pinned, at.lanesTop, true],
    [at.scrolled, at.scrollTop - scroll, false],
  ] as const) {
    const item = list.find((one) => one.what === "lane" && one.rank === rank && one.lane === lane);
    if (!item) continue;
    const drawn = drawnDepths(item);
    const row = drawn.includes(depth)
      ? drawn.indexOf(depth)
      : Math.max(
          0,
          drawn.findLastIndex((one) => one <= depth),
        );
    return { top: from + item.top + item.inset + row * item.pitch, bar: item.bar, item, pinned };
  }
  return null;
}
