/** An area: a stretch of time in some lanes. Which lanes a drag covers, and how the address names them. */

import { keyOf } from "./arrange";
import type { RankLanes, TimelineLanes } from "../../../api/answers";
import type { Item, Layout } from "./types";

/** Keys of lanes; null: all of them. */
export type Chosen = readonly string[] | null;

/** Where a drag began: a height in the picture, which scrolls with the lanes unless they are pinned. */
export interface Anchor {
  readonly y: number;
  readonly scroll: number;
}

/** Marks of a lane, as opposed to a ruler or a level. */
const holds = ({ kind }: { kind: string }): boolean => kind === "host" || kind === "device";

const lanesOf = ({ rank, groups }: RankLanes): string[] =>
  groups.filter(holds).flatMap(({ lanes }) => lanes.map(({ id }) => keyOf.lane(rank, id)));

/** The lanes of device work, which the line of a rank is drawn of. */
const streamsOf = ({ rank, groups }: RankLanes): string[] =>
  groups
    .filter(({ kind }) => kind === "device")
    .flatMap(({ lanes }) => lanes.filter(({ id }) => id.endsWith("w")).map(({ id }) => keyOf.lane(rank, id)));

/** The lanes that an item stands for: its own, those of a folded group, or the streams of a rank that is one line. */
export function lanesBehind(item: Item, lanes: TimelineLanes): readonly string[] {
  if (item.what === "lane") return holds(item) ? [item.key] : [];
  if (!item.folded) return [];
  const own = lanes.ranks.find(({ rank }) => rank === item.rank);
  if (!own) return [];
  if (item.what === "rank") return streamsOf(own).length ? streamsOf(own) : lanesOf(own);
  const group = own.groups.find(({ id }) => keyOf.group(own.rank, id) === item.key);
  return group && holds(group) ? group.lanes.map(({ id }) => keyOf.lane(own.rank, id)) : [];
}

/** The lanes between where a drag began and where it is; null, where it covers a ruler or a counter alone. */
export function lanesBetween(at: Layout, lanes: TimelineLanes, from: Anchor, y: number, scroll: number): Chosen {
  const pinned = from.y < at.scrollTop;
  const began = pinned ? from.y : from.y + from.scroll - scroll;
  const [top, bottom] = [Math.min(began, y), Math.max(began, y)];
  const covered = (list: readonly Item[], shift: number, edge: number) =>
    list.filter((item) => {
      const upper = Math.max(edge, shift + item.top);
      return upper <= bottom && shift + item.top + item.height > top;
    });
  // What is scrolled beneath the pinned lanes is covered only by a drag that began there.
  const found = [
    ...(pinned || y < at.scrollTop ? covered(at.pinned, at.lanesTop, at.lanesTop) : []),
    ...covered(at.scrolled, at.scrollTop - scroll, pinned ? at.scrollTop : -Infinity),
  ];
  const keys = [...new Set(found.flatMap((item) => lanesBehind(item, lanes)))];
  return keys.length && keys.length < lanes.ranks.flatMap(lanesOf).length ? keys : null;
}

/** Whether an item is in an area. */
export const isCovered = (item: Item, lanes: TimelineLanes, chosen: ReadonlySet<string>): boolean =>
  lanesBehind(item, lanes).some((key) => chosen.has(key));

/** `12,12w` of the one rank there is, `3/12` of one of several, `3-7/w` for their streams, `3-7/*` for all; "" for all. */
export function textOfLanes(lanes: TimelineLanes, chosen: Chosen): string {
  if (!chosen) return "";
  const keys = new Set(chosen);
  const many = lanes.ranks.length > 1;
  const ranks: Record<string, number[]> = { w: [], "*": [] };
  const some = lanes.ranks.flatMap((own) => {
    const mine = lanesOf(own).filter((key) => keys.has(key));
    const all = Object.entries({ "*": lanesOf(own), w: streamsOf(own) }).find(
      ([, every]) => many && mine.length > 0 && mine.join() === every.join(),
    );
    if (!all) return mine.map((key) => (many ? `${own.rank}/` : "") + key.slice(keyOf.lane(own.rank, "").length));
    ranks[all[0]]?.push(own.rank);
    return [];
  });
  return [
    ...some,
    ...Object.entries(ranks).flatMap(([word, of]) => ranges(of).map((text) => `${text}/${word}`)),
  ].join();
}

/** 3, 4, 5, 9 → `3-5`, `9`. */
function ranges(numbers: readonly number[]): string[] {
  const runs: number[][] = [];
  for (const number of [...numbers].sort((a, b) => a - b))
    if (runs.at(-1)?.at(-1) === number - 1) runs.at(-1)?.push(number);
    else runs.push([number]);
  return runs.map((run) => (run.length > 1 ? `${run[0]}-${run.at(-1)}` : `${run[0]}`));
}

/** The lanes that the address names, those that are not here left out. */
export function lanesFrom(lanes: TimelineLanes, text: string | undefined): Chosen {
  if (!text) return null;
  const first = lanes.ranks[0]?.rank ?? 0;
  const named = new Set(
    text.split(",").flatMap((word) => {
      const [, from, to, id] = /^(\d+)-(\d+)\/(.*)$/.exec(word) ?? [];
      return id === undefined
        ? [word]
        : lanes.ranks
            .filter(({ rank }) => rank >= Number(from) && rank <= Number(to))
            .map(({ rank }) => `${rank}/${id}`);
    }),
  );
  const keys = lanes.ranks.flatMap((own) => {
    const prefix = keyOf.lane(own.rank, "").length;
    const streams = new Set(named.has(`${own.rank}/w`) ? streamsOf(own) : []);
    return lanesOf(own).filter((key) => {
      const id = key.slice(prefix);
      return (
        streams.has(key) ||
        named.has(`${own.rank}/*`) ||
        named.has(`${own.rank}/${id}`) ||
        (own.rank === first && named.has(id))
      );
    });
  });
  return keys.length ? keys : null;
}
