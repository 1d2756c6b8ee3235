/**
 * The painter's side: holds the scene and the tiles, draws when something changed, finds the mark at a place.
 *
 * It runs in a worker, so that neither drawing nor decoding holds up the page; where a browser cannot draw in a worker
 * it runs on the page, spoken to in the same words.
 */

import { queryOf } from "../../../base/url";
import { type Brush, pngOf, sheet } from "./inks";
import { inView } from "./inview";
import { lineOf } from "./layout";
import { Overlay } from "./overlay";
import { QUERY, queryTile } from "./querymarks";
import { Painter } from "./paint";
import { AGAIN, keyOf, Store } from "./store";
import { firstAfter, markAt, type Tile, tilesIn, UNITS } from "./tile";
import type { RankLanes, TimelineLane, TimelineLanes } from "../../../api/answers";
import type { FromPainter, Mark, Scene, Share, ToPainter, Wanted } from "./types";

type Canvas = OffscreenCanvas | HTMLCanvasElement;
type Later = (run: () => void) => void;

const later: Later = (run) => {
  if (typeof requestAnimationFrame === "function") requestAnimationFrame(run);
  else setTimeout(run, 16);
};

/** Parts of the scene that only the overlay shows. */
const OVER = new Set<keyof Scene>([
  "hover",
  "pointer",
  "selected",
  "arrows",
  "range",
  "area",
  "box",
  "drop",
  "measures",
  "notes",
  "path",
  "focus",
]);

export class Engine {
  private base: Canvas | null = null;
  private over: Canvas | null = null;
  private painter: Painter | null = null;
  private overlay: Overlay | null = null;
  private scene: Partial<Scene> = {};
  private lanes: TimelineLanes | null = null;
  private address: string | null = null;
  private due = false;
  private stale = { base: false, over: false };
  private looking = false;
  private readonly asked = new Map<string, { done: (bytes: ArrayBuffer) => void; fail: (error: Error) => void }>();
  private readonly store: Store;

  constructor(private readonly reply: (message: FromPainter, transfer?: Transferable[]) => void) {
    this.store = new Store(
      (wanted, signal) => this.fetch(wanted, signal),
      () => this.touch(true),
    );
  }

  tell(message: ToPainter): void {
    if (message.say === "open") this.open(message.base, message.over, message.tiles);
    else if (message.say === "lanes") {
      this.store.clear();
      this.lanes = message.lanes;
      this.store.queries.clear();
      for (const marks of message.lanes.query ?? []) this.store.queries.set(marks.rank, queryTile(marks));
      this.touch(true);
    } else if (message.say === "scene") this.change(message.scene);
    else if (message.say === "hit") {
      const { id, rank, lane, depth, time, slack, strip } = message;
      const mark = strip ? this.hitLine(rank, time, slack, strip) : this.hit(rank, lane, depth, time, slack);
      this.reply({ say: "answer", id, mark });
    } else if (message.say === "beside")
      this.reply({ say: "answer", id: message.id, mark: this.beside(message.mark, message.side) });
    else if (message.say === "tile") {
      const asked = this.asked.get(message.key);
      this.asked.delete(message.key);
      if (message.bytes) asked?.done(message.bytes);
      else asked?.fail(new Error(message.error));
    } else if (message.say === "picture") void this.picture(message.id);
    else if (message.say === "look") {
      this.looking = true;
      this.touch(true);
    } else if (message.say === "close") this.store.clear();
  }

  private open(base: Canvas, over: Canvas, address: string | null): void {
    this.base = base;
    this.over = over;
    this.address = address;
    this.store.again = address === null ? Infinity : AGAIN;
    const below = base.getContext("2d", { alpha: false }) as Brush | null;
    const above = over.getContext("2d") as Brush | null;
    if (!below || !above) return;
    this.painter = new Painter(below, this.store);
    this.overlay = new Overlay(above);
  }

  private change(part: Partial<Scene>): void {
    const keys = Object.keys(part) as (keyof Scene)[];
    // The hues of tiles are of names or of modules.
    const byModule = part.colouring && part.colouring === "module";
    if (part.colouring && byModule !== (this.scene.colouring === "module")) this.store.clear();
    this.scene = { ...this.scene, ...part };
    this.touch(keys.some((key) => !OVER.has(key)));
  }

  private touch(base: boolean): void {
    this.stale.over = true;
    if (base) this.stale.base = true;
    if (this.due) return;
    this.due = true;
    later(() => {
      this.due = false;
      this.draw();
    });
  }

  private draw(): void {
    const { scene, lanes, base, over, painter, overlay } = this;
    if (!whole(scene) || !lanes || !base || !over || !painter || !overlay || scene.width < 1 || scene.height < 1)
      return;
    const began = performance.now();
    const width = Math.round(scene.width * scene.dpr);
    const height = Math.round(scene.height * scene.dpr);
    for (const canvas of [base, over]) {
      if (canvas.width === width && canvas.height === height) continue;
      canvas.width = width;
      canvas.height = height;
      this.stale = { base: true, over: true };
    }
    if (this.stale.base) {
      this.want(scene, lanes);
      painter.draw(scene, lanes);
    }
    if (this.stale.over) overlay.draw(scene, lanes);
    const heavy = this.stale.base;
    this.stale = { base: false, over: false };
    if (!heavy) return;
    if (this.looking && this.store.waiting === 0) {
      this.looking = false;
      this.reply({ say: "used", view: scene.view, lanes: inView(scene, lanes, this.store) });
    }
    const { waiting, bytes, failure } = this.store;
    this.reply({ say: "drawn", ms: performance.now() - began, tiles: 0, waiting, bytes, failed: failure });
  }

  /** Tiles in view first, then the whole run, then the neighbours in time and depth. */
  private want(scene: Scene, lanes: TimelineLanes): void {
    const z = Painter.depth(scene);
    const top = Painter.top(lanes);
    const seen: Wanted[] = [];
    const near: Wanted[] = [];
    const { layout, view, scroll } = scene;
    const width = view.end - view.start;
    for (const { rank, offset } of lanes.ranks) {
      const kinds = new Set(
        [
          ...layout.pinned.filter((item) => item.rank === rank),
          ...layout.scrolled.filter((item) => {
            const y = layout.scrollTop + item.top - scroll;
            return item.rank === rank && item.what !== "group" && y < scene.height + 200 && y + item.height > -200;
          }),
        ].map((item) => (item.line && !item.folded ? "device" : item.kind)),
      );
      const shares: Share[] = [];
      if (kinds.has("host") || kinds.has("device") || kinds.has("extra")) shares.push("marks");
      else if (kinds.has("rank")) shares.push("line");
      if (kinds.has("counter")) shares.push("counters");
      const begin = lanes.start - offset;
      const end = lanes.end - offset;
      const add = (list: Wanted[], deep: number, from: number, to: number) => {
        const [first, last] = tilesIn(Math.max(begin, from), Math.max(begin + 1, Math.min(end, to)), deep);
        for (const share of shares)
          for (let i = first; i <= Math.min(last, first + 24); i++) list.push({ rank, share, z: deep, i });
      };
      const start = view.start - offset;
      add(seen, z, start, start + width);
      if (z < top) add(near, top, begin, end);
      if (lanes.ranks.length > 4) continue;
      add(near, z, start - width * 0.6, start + width * 1.6);
      if (z + 1 < top) add(near, z + 1, start, start + width);
      if (z > 0) add(near, z - 1, start + width * 0.25, start + width * 0.75);
    }
    const keys = new Set<string>();
    const list = [...seen, ...near].filter((one) => {
      const key = keyOf(one);
      return !keys.has(key) && keys.add(key);
    });
    this.store.want(list, z);
  }

  private async fetch(wanted: Wanted, signal: AbortSignal): Promise<ArrayBuffer> {
    if (this.address === null) {
      const key = keyOf(wanted);
      return new Promise((done, fail) => {
        this.asked.set(key, { done, fail });
        signal.addEventListener("abort", () => {
          this.asked.delete(key);
          this.reply({ say: "drop", key });
          fail(new Error("cancelled"));
        });
        this.reply({ say: "need", key, wanted });
      });
    }
    const address = `${this.address}${queryOf(tileQuery(this.lanes, wanted, this.scene.colouring === "module"))}`;
    const answer = await fetch(address, { signal, credentials: "same-origin" });
    if (!answer.ok) throw new Error(`A tile was refused (${answer.status}).`);
    return answer.arrayBuffer();
  }

  private rank(rank: number): RankLanes | undefined {
    return this.lanes?.ranks.find((one) => one.rank === rank);
  }

  private mark(rank: RankLanes, tile: Tile, lane: string, depth: number, at: number, share: Share = "marks"): Mark {
    const from = tile.begin[at] ?? 0;
    const to = tile.end[at] ?? 0;
    const row = tile.row[at] ?? -1;
    const mark: Mark = {
      rank: rank.rank,
      lane,
      depth,
      row,
      count: tile.count[at] ?? 1,
      kind: tile.kinds[tile.kind[at] ?? 0] ?? "other",
      name:
        lane === QUERY ? (tile.names.get(tile.name[at] ?? -1) ?? "") : this.store.name(rank.rank, tile.name[at] ?? -1),
      start: tile.start + from * tile.unit + rank.offset,
      end: tile.start + to * tile.unit + rank.offset,
      cut: false,
    };
    // A mark that sticks out of its tile goes on in the neighbours, as far as they are at hand.
    for (const [way, out] of [
      [-1, from <= 0],
      [1, to >= UNITS],
    ] as const) {
      mark.cut ||= out && !this.extend(mark, rank, tile, way, share);
    }
    return mark;
  }

  private extend(mark: Mark, rank: RankLanes, tile: Tile, way: -1 | 1, share: Share): boolean {
    for (let i = tile.i + way; Math.abs(i - tile.i) < 40; i += way) {
      const next = this.store.get({ rank: rank.rank, share, z: tile.z, i });
      if (!next) return false;
      const found = markAt(next, mark.lane, mark.depth, way > 0 ? 0 : UNITS, 1);
      if (found < 0 || next.row[found] !== mark.row) return true;
      const from = next.begin[found] ?? 0;
      const to = next.end[found] ?? 0;
      if (way > 0) mark.end = next.start + to * next.unit + rank.offset;
      else mark.start = next.start + from * next.unit + rank.offset;
      if (way > 0 ? to < UNITS : from > 0) return true;
    }
    return false;
  }

  private tileAt(rank: RankLanes, lane: string, time: number, around = 0, share: Share = "marks"): Tile | null {
    if (lane === QUERY) return around ? null : (this.store.queries.get(rank.rank) ?? null);
    if (!whole(this.scene) || !this.lanes) return null;
    const z = Painter.depth(this.scene);
    const i = Math.floor((time - rank.offset) / (UNITS * 2 ** z)) + around;
    const pieces = this.store.standing({ rank: rank.rank, share, z, i }, Painter.top(this.lanes));
    return (
      pieces.find(({ start, end }) => around !== 0 || (time - rank.offset >= start && time - rank.offset < end))
        ?.tile ?? null
    );
  }

  private hit(rank: number, lane: string, depth: number, time: number, slack: number): Mark | null {
    const own = this.rank(rank);
    if (own && counterOf(own, lane)) return this.counted(own, lane, time);
    const tile = own && this.tileAt(own, lane, time);
    if (!own || !tile) return null;
    const unit = (time - own.offset - tile.start) / tile.unit;
    const at = markAt(tile, lane, depth, unit, slack / tile.unit);
    return at < 0 ? null : this.mark(own, tile, lane, depth, at);
  }

  /** The mark in the line of a rank: of communication in its lower strip, of all else in the upper one. */
  private hitLine(rank: number, time: number, slack: number, strip: "upper" | "lower"): Mark | null {
    const own = this.rank(rank);
    if (!own) return null;
    const share: Share = this.tileAt(own, "", time, 0, "line") ? "line" : "marks";
    const tile = this.tileAt(own, "", time, 0, share);
    if (!tile) return null;
    const line = lineOf(own);
    const unit = (time - own.offset - tile.start) / tile.unit;
    // What is under the pointer, else what is nearly so.
    for (const near of [0, slack / tile.unit])
      for (const [place, { id }] of line.lanes.entries()) {
        const depth = place ? 0 : line.depth;
        const at = markAt(tile, id, depth, unit, near);
        const mark = at < 0 ? null : this.mark(own, tile, id, depth, at, share);
        if (mark && (mark.kind === "communication") === (strip === "lower")) return mark;
      }
    return null;
  }

  /** What a counter stands at. */
  private counted(own: RankLanes, lane: string, time: number): Mark | null {
    const counter = counterOf(own, lane);
    const tile = this.tileAt(own, lane, time, 0, "counters");
    const span = tile?.counters.get(lane);
    if (!counter || !tile || !span) return null;
    const unit = (time - own.offset - tile.start) / tile.unit;
    let at = span.from;
    while (at + 1 < span.to && (tile.time[at + 1] ?? 0) <= unit) at++;
    const next = at + 1 < span.to ? (tile.time[at + 1] ?? UNITS) : UNITS;
    const mean = tile.mean[at] ?? NaN;
    if (at >= span.to || Number.isNaN(mean)) return null;
    const start = tile.start + (tile.time[at] ?? 0) * tile.unit + own.offset;
    const end = tile.start + next * tile.unit + own.offset;
    const level = { mean, max: tile.max[at] ?? mean, unit: counter.unit ?? "" };
    const { rank } = own;
    return { rank, lane, depth: 0, row: -1, count: 1, kind: "", name: counter.title, start, end, cut: false, level };
  }

  private beside(mark: Mark, side: "next" | "previous"): Mark | null {
    const own = this.rank(mark.rank);
    if (!own) return null;
    const way = side === "next" ? 1 : -1;
    for (let around = 0; Math.abs(around) < 4; around += way) {
      const tile = this.tileAt(own, mark.lane, way > 0 ? mark.end : mark.start, around);
      const marks = tile?.lanes.get(mark.lane);
      if (!tile || !marks || mark.depth + 1 >= marks.bounds.length) continue;
      const from = marks.bounds[mark.depth] ?? 0;
      const to = marks.bounds[mark.depth + 1] ?? 0;
      const unit = ((way > 0 ? mark.end : mark.start) - own.offset - tile.start) / tile.unit;
      let at = firstAfter(tile.end, from, to, way > 0 ? unit + 0.01 : unit - 0.01);
      if (way < 0) at--;
      while (at >= from && at < to && tile.row[at] === mark.row) at += way;
      if (at >= from && at < to) return this.mark(own, tile, mark.lane, mark.depth, at);
    }
    return null;
  }

  private async picture(id: number): Promise<void> {
    const { base, over } = this;
    let blob: Blob | null = null;
    if (base && over) {
      this.stale = { base: true, over: true };
      this.draw();
      const both = sheet(base.width, base.height);
      const on = both.getContext("2d") as Brush | null;
      on?.drawImage(base, 0, 0);
      on?.drawImage(over, 0, 0);
      blob = await pngOf(both);
    }
    this.reply({ say: "picture", id, blob });
  }
}

/** What is asked for a tile, by key in order. */
export function tileQuery(
  lanes: TimelineLanes | null,
  { rank, share, z, i }: Wanted,
  byModule = false,
): [string, string][] {
  const own = lanes?.ranks.find((one) => one.rank === rank);
  const ids = own ? (share === "line" ? lineOf(own).lanes.map(({ id }) => id) : sharesOf(own, share)) : [];
  const colour: [string, string][] = byModule ? [["colour", "module"]] : [];
  return [...colour, ["i", `${i}`], ["lanes", ids.join(",")], ...wholeTile(lanes, { rank, share, z, i }).slice(1)];
}

function sharesOf({ groups }: RankLanes, share: Share): string[] {
  return groups
    .filter(({ kind }) => (kind === "counter") === (share === "counters") && kind !== "steps")
    .flatMap((group) => group.lanes.map(({ id }) => id))
    .filter((id) => id !== QUERY);
}

const counterOf = ({ groups }: RankLanes, lane: string): TimelineLane | undefined =>
  groups.find(({ kind }) => kind === "counter")?.lanes.find(({ id }) => id === lane);

/** The same for a tile with all lanes in it, as a report keeps them. */
export function wholeTile(lanes: TimelineLanes | null, { rank, z, i }: Wanted): [string, string][] {
  const version: [string, string][] = lanes?.version ? [["v", lanes.version]] : [];
  return [["i", `${i}`], ["rank", `${rank}`], ...version, ["z", `${z}`]];
}

function whole(scene: Partial<Scene>): scene is Scene {
  return (
    scene.view !== undefined && scene.layout !== undefined && scene.theme !== undefined && scene.width !== undefined
  );
}
