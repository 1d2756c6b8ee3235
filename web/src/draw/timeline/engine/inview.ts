/** Which depths of the lanes of the host, and of replays, hold something in view, and where calls begin to follow one another. */

import { Painter } from "./paint";
import type { Piece, Store } from "./store";
import { firstAfter, tilesIn } from "./tile";
import type { TimelineLanes } from "../../../api/answers";
import type { InView, Scene } from "./types";

/** Share of the view from which on a call is seen as one; and that what is narrower must fill together. */
const WIDE = 0.01;
const FILLED = 0.05;

export function inView(scene: Scene, lanes: TimelineLanes, store: Store): InView[] {
  const z = Painter.depth(scene);
  const top = Painter.top(lanes);
  const { layout, view } = scene;
  const open = new Set([...layout.pinned, ...layout.scrolled].map((item) => (item.what === "lane" ? item.rank : -1)));
  const found: InView[] = [];
  for (const { rank, offset, groups } of lanes.ranks) {
    if (!open.has(rank)) continue;
    const start = view.start - offset;
    const end = view.end - offset;
    const [first, last] = tilesIn(start, end, z);
    const pieces: Piece[] = [];
    for (let i = first; i <= last; i++) pieces.push(...store.standing({ rank, share: "marks", z, i }, top));
    if (!pieces.length) continue;
    for (const group of groups)
      for (const { id, slices } of group.lanes)
        if (group.kind === "host" || slices !== null) found.push({ rank, lane: id, ...depths(pieces, id, start, end) });
  }
  return found;
}

function depths(
  pieces: readonly Piece[],
  lane: string,
  start: number,
  end: number,
): { depths: number[]; branch: number } {
  const deepest = Math.max(0, ...pieces.map(({ tile }) => (tile.lanes.get(lane)?.bounds.length ?? 1) - 1));
  const used: number[] = [];
  let branch = -1;
  for (let depth = 0; depth < deepest; depth++) {
    const { some, splits } = filled(pieces, lane, depth, start, end);
    if (some) used.push(depth);
    if (splits && branch < 0) branch = depth;
  }
  return { depths: used, branch };
}

/** Whether a row holds anything, and more than one call that can be seen. */
function filled(
  pieces: readonly Piece[],
  lane: string,
  depth: number,
  start: number,
  end: number,
): { some: boolean; splits: boolean } {
  let some = false;
  let wide = 0;
  let narrow = 0;
  let before = -1;
  for (const piece of pieces) {
    const { tile } = piece;
    const marks = tile.lanes.get(lane);
    if (!marks || depth + 1 >= marks.bounds.length) continue;
    const from = Math.max(start, piece.start);
    const to = Math.min(end, piece.end);
    const last = marks.bounds[depth + 1] ?? 0;
    const first = firstAfter(tile.end, marks.bounds[depth] ?? 0, last, (from - tile.start) / tile.unit);
    for (let mark = first; mark < last; mark++) {
      const begins = tile.start + (tile.begin[mark] ?? 0) * tile.unit;
      if (begins >= to) break;
      some = true;
      const share =
        (Math.min(to, tile.start + (tile.end[mark] ?? 0) * tile.unit) - Math.max(from, begins)) / (end - start);
      if (share < WIDE) narrow += share;
      else if (tile.row[mark] !== before) wide++;
      before = tile.row[mark] ?? -1;
      if (wide > 1 || narrow > FILLED) return { some, splits: true };
    }
  }
  return { some, splits: false };
}
