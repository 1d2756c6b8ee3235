/** Where each lane stands: ranks under one another, groups in them, lanes in those; folded, pinned, scrolled. */

import type { Group, GroupKind, Item, Lane, Lanes, Layout } from "./types";

/** What the reader folded, unfolded and pinned, by key of item. */
export interface Arrangement {
  folded: ReadonlySet<string>;
  /** Lanes shown with all their rows. */
  full: ReadonlySet<string>;
  pinned: ReadonlySet<string>;
}

export const PLAIN: Arrangement = { folded: new Set(), full: new Set(), pinned: new Set() };

/** Deeper lanes show this many rows until they are asked for the rest. */
export const ROWS = 12;

const PITCH: Record<GroupKind, number> = { steps: 20, counter: 38, host: 15, device: 21 };
const BAR: Record<GroupKind, number> = { steps: 18, counter: 36, host: 14, device: 20 };
const GAP = 9;
/** Steps come with the lanes themselves; their ruler is one line. */
const RULER: Lane = { id: "steps", title: "steps", depth: 1 };

const RANK = 28;
const GROUP = 28;
const LABEL = 18;

export const keyOf = {
  rank: (rank: number) => `r${rank}`,
  group: (rank: number, group: string) => `g${rank}/${group}`,
  lane: (rank: number, lane: string) => `l${rank}/${lane}`,
};

function laneItem(rank: number, offset: number, group: Group, lane: Lane, how: Arrangement, narrow: boolean): Item {
  const key = keyOf.lane(rank, lane.id);
  const deep = group.kind === "counter" || group.kind === "steps" ? 1 : Math.max(1, lane.depth);
  const folded = how.folded.has(key) && deep > 1;
  const full = how.full.has(key);
  const outer = Math.min(lane.outer ?? 0, deep - 1);
  const skip = !full && outer > 2 ? outer : 0;
  const capped = deep - skip > ROWS + 2 && !full;
  const rows = folded ? 1 : capped ? ROWS : deep - skip;
  const inset = narrow && group.kind !== "steps" ? LABEL : 0;
  const more = !folded && rows < deep ? LABEL : 0;
  return {
    key,
    what: "lane",
    kind: group.kind,
    rank,
    offset,
    lane: lane.id,
    title: lane.title,
    top: 0,
    height: inset + rows * PITCH[group.kind] + more + GAP,
    inset,
    rows,
    skip,
    pitch: PITCH[group.kind],
    bar: BAR[group.kind],
    hidden: deep - rows,
    folded,
    foldable: deep > 1,
    pinned: how.pinned.has(key),
    indent: 0,
    unit: lane.unit ?? "",
    max: lane.max ?? 0,
    colour: lane.kind ?? "",
  };
}

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
  return {
    key,
    what,
    kind,
    rank,
    offset,
    lane: "",
    title,
    top: 0,
    height,
    inset: 0,
    rows: 0,
    skip: 0,
    pitch: height,
    bar: height,
    hidden: 0,
    folded,
    foldable: true,
    pinned: false,
    indent: 0,
    unit: "",
    max: 0,
    colour: "",
  };
}

/** What is seen of counters that are folded: the first kind of them, for each device. */
function leading(group: Group): ReadonlySet<string> {
  const kind = (id: string) => id.split(".", 1)[0];
  const first = group.kind === "counter" ? group.lanes[0] : undefined;
  return new Set(first ? group.lanes.filter(({ id }) => kind(id) === kind(first.id)).map(({ id }) => id) : []);
}

/** All items in order, whether pinned or not. Headers stand where there is something to tell apart. */
export function items(lanes: Lanes, how: Arrangement, narrow: boolean): Item[] {
  const found: Item[] = [];
  const many = lanes.ranks.length > 1;
  for (const { rank, offset, groups, steps } of lanes.ranks) {
    const folded = how.folded.has(keyOf.rank(rank));
    if (many) found.push(header("rank", keyOf.rank(rank), rank, offset, "rank", `Rank ${rank}`, folded));
    for (const group of groups) {
      const key = keyOf.group(rank, group.id);
      const shut = folded || how.folded.has(key);
      const headed = group.lanes.length > 1 && group.kind !== "steps";
      const lead = leading(group);
      if (headed && !folded) {
        const count = group.lanes.length;
        const words = shut && lead.size ? `${lead.size} of ${count}` : `${count}`;
        found.push(header("group", key, rank, offset, group.kind, `${group.title} · ${words}`, shut));
      }
      for (const lane of group.kind === "steps" ? (steps?.length ? [RULER] : []) : group.lanes) {
        const item = laneItem(rank, offset, group, lane, how, narrow);
        const titled =
          !headed && group.kind === "device" && group.title !== lane.title
            ? { title: `${group.title} · ${lane.title}` }
            : {};
        if (item.pinned || !(shut && (headed || folded)) || (!folded && lead.has(lane.id)))
          found.push({ ...item, ...titled, indent: headed ? 8 : 0 });
      }
    }
  }
  return found;
}

function placed(list: Item[]): [Item[], number] {
  let top = 0;
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
    const waiting = item.folded ? 0 : item.hidden - item.skip;
    const more = Math.max(0, Math.min(waiting, Math.floor(left / item.pitch)));
    if (!more) return item;
    // With nothing left to ask for, the line that asks goes too.
    const line = item.hidden === more ? LABEL : 0;
    const height = item.height + more * item.pitch - line;
    left -= height - item.height;
    return { ...item, rows: item.rows + more, hidden: item.hidden - more, height };
  });
}

/** `room` is what the lanes may take before they must be scrolled. */
export function layout(lanes: Lanes, how: Arrangement, width: number, room = 0): Layout {
  const narrow = width < 600;
  const all = grown(items(lanes, how, narrow), room);
  const sole = lanes.ranks.length === 1;
  // The ruler of steps of a single rank stays in sight.
  const stays = (item: Item) => item.what === "lane" && (item.pinned || (sole && item.kind === "steps"));
  const label = (item: Item): Item =>
    item.pinned && !sole
      ? { ...item, title: `${item.title} · rank ${item.rank}`, indent: 0 }
      : { ...item, indent: item.pinned ? 0 : item.indent };
  const [pinned, pinnedHeight] = placed(all.filter(stays).map(label));
  const [scrolled, height] = placed(all.filter((item) => !stays(item)));
  const minimapHeight = narrow ? 28 : 34;
  const axisTop = minimapHeight + 4;
  const axisHeight = 22;
  const lanesTop = axisTop + axisHeight + 4;
  return {
    pinned,
    scrolled,
    pinnedHeight,
    height,
    gutter: narrow ? 0 : width > 1000 ? 184 : 140,
    minimapTop: 0,
    minimapHeight,
    axisTop,
    axisHeight,
    lanesTop,
    scrollTop: lanesTop + pinnedHeight,
  };
}

/** The arrangement with the row of a mark unfolded; the same one if it is shown already. */
export function unfolded(
  lanes: Lanes,
  how: Arrangement,
  at: Layout,
  mark: { rank: number; lane: string; depth: number },
): Arrangement {
  const key = keyOf.lane(mark.rank, mark.lane);
  const item = [...at.pinned, ...at.scrolled].find((one) => one.key === key);
  if (item && mark.depth >= item.skip && mark.depth < item.skip + item.rows) return how;
  const group = lanes.ranks
    .find(({ rank }) => rank === mark.rank)
    ?.groups.find((one) => one.lanes.some(({ id }) => id === mark.lane));
  if (!group) return how;
  const folded = new Set(how.folded);
  for (const shut of [keyOf.rank(mark.rank), keyOf.group(mark.rank, group.id), key]) folded.delete(shut);
  return { ...how, folded, full: new Set([...how.full, key]) };
}

export interface Spot {
  item: Item;
  /** Row of marks in the lane; −1 beside them. */
  depth: number;
  /** On the line that unfolds the rest of the rows. */
  more: boolean;
  /** Within its part of the canvas: where the item begins. */
  top: number;
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
  if (stuck && y < at.scrollTop + stuck.height) return { item: stuck, depth: -1, more: false, top: at.scrollTop };
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
    depth: marked ? depth + item.skip : -1,
    more: item.hidden > 0 && !item.folded && within >= item.rows * item.pitch,
    top,
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
    const row = Math.min(Math.max(0, depth - item.skip), item.rows - 1);
    return { top: from + item.top + item.inset + row * item.pitch, bar: item.bar, item, pinned };
  }
  return null;
}
