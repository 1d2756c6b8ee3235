/** Lanes as the reader arranged them: filtered by name, hidden, in another order; and the same as words of the address. */

import type { TimelineGroup, RankLanes, TimelineLanes } from "../../../api/answers";
import type { Item } from "./types";

/** What the reader arranged, by key of item. */
export interface Arrangement {
  readonly folded: ReadonlySet<string>;
  /** Lanes shown with all their rows. */
  readonly full: ReadonlySet<string>;
  readonly pinned: ReadonlySet<string>;
  readonly hidden: ReadonlySet<string>;
  /** What stands before which of its siblings, one move after the other; "" is the end. */
  readonly moves: ReadonlyMap<string, string>;
  /** Height of rows in halves of the usual one, by lane; "*" for all others. */
  readonly heights: ReadonlyMap<string, number>;
  /** Only lanes with one of these words, separated by commas; "" for all. */
  readonly filter: string;
  /** Width of the labels in px; 0 for the usual one. */
  readonly labels: number;
}

/** The parts of an arrangement that are sets of keys. */
export type Flipped = "folded" | "full" | "pinned" | "hidden";

export const PLAIN: Arrangement = {
  folded: new Set(),
  full: new Set(),
  pinned: new Set(),
  hidden: new Set(),
  moves: new Map(),
  heights: new Map(),
  filter: "",
  labels: 0,
};

export const keyOf = {
  rank: (rank: number) => `r${rank}`,
  group: (rank: number, group: string) => `g${rank}/${group}`,
  lane: (rank: number, lane: string) => `l${rank}/${lane}`,
};

export const LEAST_HALVES = 1;
export const MOST_HALVES = 8;
const USUAL_HALVES = 2;
export const LABELS = { least: 80, most: 600 } as const;

/** How many times as high as usual the rows of a lane are. */
export const heightOf = ({ heights }: Arrangement, key: string): number =>
  (heights.get(key) ?? heights.get("*") ?? USUAL_HALVES) / USUAL_HALVES;

export function flipped(how: Arrangement, what: Flipped, key: string): Arrangement {
  const next = new Set(how[what]);
  if (!next.delete(key)) next.add(key);
  return { ...how, [what]: next };
}

/** Higher or lower rows, of a lane or of all ("*"). */
export function resized(how: Arrangement, key: string, by: number): Arrangement {
  const now = how.heights.get(key) ?? how.heights.get("*") ?? USUAL_HALVES;
  const next = Math.min(MOST_HALVES, Math.max(LEAST_HALVES, now + by));
  const heights = new Map(how.heights);
  const otherwise = key === "*" ? USUAL_HALVES : (how.heights.get("*") ?? USUAL_HALVES);
  if (next === otherwise) heights.delete(key);
  else heights.set(key, next);
  return { ...how, heights };
}

const wordsOf = (filter: string): string[] =>
  filter
    .toLowerCase()
    .split(",")
    .map((word) => word.trim())
    .filter(Boolean);

/** The lanes that are shown, in the order in which they are: what is hidden or filtered out is not among them. */
export function shownLanes(lanes: TimelineLanes, how: Arrangement): TimelineLanes {
  if (!how.hidden.size && !how.moves.size && !how.filter) return lanes;
  const words = wordsOf(how.filter);
  const has = (text: string) => !words.length || words.some((word) => text.toLowerCase().includes(word));
  const ofGroup = (rank: number, group: TimelineGroup, named: boolean): TimelineGroup[] => {
    if (group.kind === "steps") return [group];
    if (how.hidden.has(keyOf.group(rank, group.id))) return [];
    const all = named || has(group.title);
    const left = group.lanes.filter((lane) => !how.hidden.has(keyOf.lane(rank, lane.id)) && (all || has(lane.title)));
    const ordered = inOrder(left, ({ id }) => keyOf.lane(rank, id), how.moves);
    return left.length ? [{ ...group, lanes: ordered }] : [];
  };
  const ofRank = (own: RankLanes): RankLanes[] => {
    const { rank } = own;
    if (how.hidden.has(keyOf.rank(rank))) return [];
    const named = lanes.ranks.length > 1 && words.length > 0 && words.includes(`rank ${rank}`);
    const groups = own.groups.flatMap((group) => ofGroup(rank, group, named));
    if (words.length && !groups.some(({ kind }) => kind !== "steps")) return [];
    return [{ ...own, groups: inOrder(groups, ({ id }) => keyOf.group(rank, id), how.moves) }];
  };
  const ranks = lanes.ranks.flatMap(ofRank);
  return { ...lanes, ranks: inOrder(ranks, ({ rank }) => keyOf.rank(rank), how.moves) };
}

function inOrder<T>(list: readonly T[], key: (each: T) => string, moves: ReadonlyMap<string, string>): T[] {
  const found = [...list];
  for (const [what, before] of moves) {
    const from = found.findIndex((each) => key(each) === what);
    const [moved] = from < 0 ? [] : found.splice(from, 1);
    if (moved === undefined) continue;
    const to = before ? found.findIndex((each) => key(each) === before) : found.length;
    found.splice(to < 0 ? from : to, 0, moved);
  }
  return found;
}

interface Place {
  readonly rank: string;
  readonly group: string;
  readonly lane: string;
}

const placeOf = (lanes: TimelineLanes, item: Item): Place => {
  const own = lanes.ranks.find(({ rank }) => rank === item.rank);
  const group =
    item.what === "lane"
      ? own?.groups.find((each) => each.lanes.some(({ id }) => id === item.lane))?.id
      : item.what === "group"
        ? own?.groups.find(({ id }) => keyOf.group(item.rank, id) === item.key)?.id
        : undefined;
  return {
    rank: keyOf.rank(item.rank),
    group: group === undefined ? "" : keyOf.group(item.rank, group),
    lane: item.what === "lane" ? item.key : "",
  };
};

/** The siblings of a key, in their order. */
function siblings(lanes: TimelineLanes, level: keyof Place, of: Place): string[] {
  if (level === "rank") return lanes.ranks.map(({ rank }) => keyOf.rank(rank));
  const own = lanes.ranks.find(({ rank }) => keyOf.rank(rank) === of.rank);
  if (level === "group")
    return (own?.groups ?? []).filter(({ kind }) => kind !== "steps").map(({ id }) => keyOf.group(own?.rank ?? 0, id));
  const group = own?.groups.find(({ id }) => keyOf.group(own.rank, id) === of.group);
  return (group?.lanes ?? []).map(({ id }) => keyOf.lane(own?.rank ?? 0, id));
}

function moved(how: Arrangement, lanes: TimelineLanes, level: keyof Place, of: Place, to: number): Arrangement {
  const what = of[level];
  const list = siblings(shownLanes(lanes, how), level, of);
  const from = list.indexOf(what);
  if (!what || from < 0 || to === from || to === from + 1 || to < 0 || to > list.length) return how;
  const moves = new Map(how.moves);
  moves.delete(what); // The last move of a thing is what counts, and comes after those it rests on.
  moves.set(what, list[to] ?? "");
  return { ...how, moves };
}

/**
 * An item dropped beside another one: a lane among its siblings, or else what both stand in, a group or a rank.
 *
 * `after` is on the lower half of the other one.
 */
export function dropped(how: Arrangement, lanes: TimelineLanes, item: Item, on: Item, after: boolean): Arrangement {
  const [from, to] = [placeOf(lanes, item), placeOf(lanes, on)];
  const level =
    from.rank !== to.rank || !from.group || !to.group
      ? "rank"
      : from.group !== to.group || !from.lane || !to.lane
        ? "group"
        : "lane";
  if (level === "rank" && from.rank === to.rank) return how;
  const list = siblings(shownLanes(lanes, how), level, from);
  const at = list.indexOf(to[level]);
  return at < 0 ? how : moved(how, lanes, level, from, at + Number(after));
}

/** An item one place up or down among its siblings; a lane at the edge of its group takes the group with it. */
export function nudged(how: Arrangement, lanes: TimelineLanes, item: Item, by: 1 | -1): Arrangement {
  const place = placeOf(lanes, item);
  for (const level of ["lane", "group", "rank"] as const) {
    const at = place[level] ? siblings(shownLanes(lanes, how), level, place).indexOf(place[level]) : -1;
    if (at < 0) continue;
    const next = moved(how, lanes, level, place, by > 0 ? at + 2 : at - 1);
    if (next !== how) return next;
  }
  return how;
}

// In the address.

const NAMES: Readonly<Record<Flipped, string>> = { folded: "fold", full: "rows", pinned: "pin", hidden: "hide" };
export const ARRANGED = ["fold", "rows", "pin", "hide", "move", "tall", "filter", "labels"] as const;
/** Words of a long address. */
const MOST = 1000;

/** A key as one word: ids of groups may hold what parts words. */
const wordOf = (key: string): string => key.replace(/[\s:>*]/g, "_");

/** What is otherwise than in `first`, for the address; null: nothing. */
export function arrangedParams(how: Arrangement, first: Arrangement): Record<string, string | null> {
  const other = (what: Flipped) =>
    [...new Set([...how[what], ...first[what]])]
      .filter((key) => how[what].has(key) !== first[what].has(key))
      .map(wordOf)
      .sort();
  const pairs = (map: ReadonlyMap<string, string | number>, by: string) =>
    [...map].map(([key, value]) => `${key === "*" ? key : wordOf(key)}${by}${wordOf(String(value))}`).join(" ");
  return {
    ...Object.fromEntries(
      (Object.keys(NAMES) as Flipped[]).map((what) => [NAMES[what], other(what).join(" ") || null]),
    ),
    move: pairs(how.moves, ">") || null,
    tall: pairs(how.heights, ":") || null,
    filter: how.filter || null,
    labels: how.labels ? String(how.labels) : null,
  };
}

/** As the address has it; keys of lanes that are not here mean nothing. */
export function arrangementFrom(
  lanes: TimelineLanes,
  params: Readonly<Record<string, string>>,
  first: Arrangement,
): Arrangement {
  const keys = new Map<string, string>();
  for (const { rank, groups } of lanes.ranks) {
    keys.set(keyOf.rank(rank), keyOf.rank(rank));
    for (const group of groups) {
      keys.set(wordOf(keyOf.group(rank, group.id)), keyOf.group(rank, group.id));
      for (const { id } of group.lanes) keys.set(wordOf(keyOf.lane(rank, id)), keyOf.lane(rank, id));
    }
  }
  const words = (name: string) => (params[name] ?? "").split(" ").filter(Boolean).slice(0, MOST);
  const sets = (Object.keys(NAMES) as Flipped[]).map((what): [Flipped, ReadonlySet<string>] => {
    const set = new Set(first[what]);
    for (const key of words(NAMES[what]).flatMap((word) => keys.get(word) ?? [])) if (!set.delete(key)) set.add(key);
    return [what, set];
  });
  const moves = words("move").flatMap((word): [string, string][] => {
    const [what = "", before] = word.split(">", 2);
    const [key, to] = [keys.get(what), before ? keys.get(before) : before];
    return key !== undefined && to !== undefined ? [[key, to]] : [];
  });
  const heights = words("tall").flatMap((word): [string, number][] => {
    const [what = "", halves = ""] = word.split(":", 2);
    const [key, number] = [what === "*" ? what : keys.get(what), Number(halves)];
    return key && Number.isInteger(number) && number >= LEAST_HALVES && number <= MOST_HALVES ? [[key, number]] : [];
  });
  const wide = Number(params["labels"] ?? 0);
  return {
    ...first,
    ...Object.fromEntries(sets),
    moves: new Map(moves),
    heights: new Map(heights),
    filter: (params["filter"] ?? "").slice(0, 200),
    labels: wide ? Math.min(LABELS.most, Math.max(LABELS.least, Math.round(wide) || 0)) : 0,
  };
}
