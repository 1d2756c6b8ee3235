/** The picture beneath the pointer: lanes, ruler, labels, the run as a whole. In device pixels throughout. */

import { shown } from "../../../base/numbers";
import { printable } from "../../../base/text";
import { type Brush, Inks, mix, Rects } from "./inks";
import { stripsOf, stuckRank } from "./layout";
import { QUERY } from "./querymarks";
import { type Frame, type Label, Rows } from "./marks";
import { ticks } from "./ruler";
import type { Piece, Store } from "./store";
import { Measure } from "./text";
import { tilesIn, UNITS, zFor } from "./tile";
import { Titles } from "./titles";
import type { RankLanes, TimelineLanes, TimelineStep } from "../../../api/answers";
import type { Item, Scene, Share, Theme } from "./types";
import { WholeRun } from "./whole";

export class Painter {
  private inks: Inks;
  private readonly rects = new Rects();
  private readonly rows = new Rows();
  private measure: Measure;
  private theme: Theme | null = null;
  private dpr = 0;
  private readonly whole: WholeRun;
  private readonly titles: Titles;

  constructor(
    private readonly on: Brush,
    private readonly store: Store,
  ) {
    this.inks = new Inks({ kinds: {}, ground: "#ffffff" } as unknown as Theme);
    this.measure = new Measure(() => 0);
    this.whole = new WholeRun(on);
    this.titles = new Titles(on, (key) => this.tops.get(key));
  }

  private font(size: number, weight = ""): string {
    return `${weight} ${size * this.dpr}px ${this.theme?.font ?? "sans-serif"}`.trim();
  }

  private ready(scene: Scene): void {
    if (this.theme === scene.theme && this.dpr === scene.dpr) return;
    this.theme = scene.theme;
    this.dpr = scene.dpr;
    this.inks = new Inks(scene.theme);
    const font = this.font(11);
    this.measure = new Measure((text) => {
      this.on.font = font;
      return this.on.measureText(text).width;
    });
    this.titles.ready(scene);
  }

  /** The depth of tiles that a scene needs. */
  static depth(scene: Scene): number {
    const wide = Math.max(1, scene.width - scene.layout.gutter);
    return zFor((scene.view.end - scene.view.start) / wide);
  }

  draw(scene: Scene, lanes: TimelineLanes): void {
    this.ready(scene);
    const { on } = this;
    const { layout, theme, dpr, view } = scene;
    const width = Math.round(scene.width * dpr);
    const height = Math.round(scene.height * dpr);
    on.setTransform(1, 0, 0, 1, 0, 0);
    on.fillStyle = theme.ground;
    on.fillRect(0, 0, width, height);
    on.textBaseline = "middle";
    const left = Math.round(layout.gutter * dpr);
    const scale = (width - left) / (view.end - view.start);
    this.axis(scene, left, scale);
    for (const pinned of [false, true]) {
      const top = (pinned ? layout.lanesTop : layout.scrollTop) * dpr;
      const bottom = pinned ? layout.scrollTop * dpr : height;
      on.save();
      on.beginPath();
      on.rect(0, top, width, bottom - top);
      on.clip();
      this.part(scene, lanes, pinned, left, width, scale);
      on.restore();
    }
    if (layout.pinned.length && layout.height > scene.height - layout.scrollTop && scene.scroll > 0) {
      on.fillStyle = theme.line;
      on.fillRect(0, Math.round(layout.scrollTop * dpr) - 1, width, 1);
    }
    this.whole.draw(scene, lanes, left, width);
    this.bar(scene, width);
  }

  private part(scene: Scene, lanes: TimelineLanes, pinned: boolean, left: number, width: number, scale: number): void {
    const { layout, dpr, view } = scene;
    const from = pinned ? layout.lanesTop : layout.scrollTop - scene.scroll;
    const list = (pinned ? layout.pinned : layout.scrolled).filter(
      (item) => from + item.top < scene.height && from + item.top + item.height > (pinned ? 0 : layout.scrollTop),
    );
    const z = Painter.depth(scene);
    const top = Painter.top(lanes);
    const pieces = new Map<string, Piece[]>();
    const { rows, codes } = scene.matches ?? { rows: null, codes: null };
    const found = (rows ?? codes) ? ({ by: rows ? "row" : "name", of: new Set(rows ?? codes) } as const) : null;
    const labels: Label[] = [];
    for (const item of list) {
      if (item.what === "group") continue;
      const y = from + item.top + item.inset;
      if (item.kind === "steps") {
        this.steps(scene, lanes, item, y, left, width, scale);
        continue;
      }
      const share: Share = item.kind === "counter" ? "counters" : item.line && item.folded ? "line" : "marks";
      const key = `${item.rank}/${share}`;
      let own = pieces.get(key);
      if (!own) {
        own = [];
        const [first, last] = tilesIn(view.start - item.offset, view.end - item.offset, z);
        for (let i = first; i <= last; i++) own.push(...this.store.standing({ rank: item.rank, share, z, i }, top));
        pieces.set(key, own);
      }
      const asked = item.lane === QUERY ? this.store.queries.get(item.rank) : undefined;
      if (asked) own = [{ tile: asked, start: -Infinity, end: Infinity }];
      const zero = left + (item.offset - view.start) * scale;
      if (item.kind === "counter") {
        this.counter(scene, item, own, y, left, width, zero, scale);
        continue;
      }
      // What is folded is too thin for names.
      const room = item.bar < 12 ? Infinity : (item.bar > 16 ? 30 : 28) * dpr;
      const frame: Frame = {
        left,
        right: width,
        zero,
        scale,
        dpr,
        inks: this.inks,
        hues: asked !== undefined || scene.colouring !== "kind",
        rects: this.rects,
        labels,
        room,
        found,
        only: null,
        name: (code) => asked?.names.get(code) ?? this.store.name(item.rank, code),
      };
      if (item.line) this.line(frame, own, item, y);
      for (let line = 0; line < item.rows; line++) {
        const at = y + line * item.pitch;
        if (at > scene.height || at + item.pitch < (pinned ? 0 : layout.scrollTop)) continue;
        const tall = Math.round((at + item.bar) * dpr) - Math.round(at * dpr);
        this.rows.row(frame, own, item.lane, item.depths[line] ?? 0, Math.round(at * dpr), tall);
      }
    }
    this.rects.draw(this.on, this.inks.css);
    this.labels(labels);
    for (const item of list) this.titles.draw(scene, item, from + item.top, left, width);
    const stuck = pinned ? null : stuckRank(layout, scene.scroll);
    if (stuck) this.titles.header(scene, stuck, layout.scrollTop, width, true);
  }

  /** All that the devices of a rank do in one line: communication beneath the rest, so that both are seen. */
  private line(frame: Frame, pieces: readonly Piece[], item: Item, y: number): void {
    const { line } = item;
    if (!line) return;
    const { dpr } = frame;
    const row = (only: Frame["only"], from: number, tall: number) => {
      const quiet = { ...frame, only, hues: false, room: Infinity };
      line.lanes.forEach((lane, at) =>
        this.rows.row(quiet, pieces, lane, at ? 0 : line.depth, Math.round((y + from) * dpr), Math.round(tall * dpr)),
      );
    };
    const { upper, lower } = stripsOf(item);
    row((kind) => kind !== "communication", upper.from, upper.tall);
    row((kind) => kind === "communication", lower.from, lower.tall);
  }

  private labels(labels: readonly Label[]): void {
    const { on, dpr } = this;
    on.font = this.font(11);
    on.textAlign = "left";
    const pad = 5 * dpr;
    let ink = -1;
    for (const label of labels) {
      const text = this.measure.fit(printable(label.text.slice(0, 200)), label.width - 2 * pad);
      if (!text) continue;
      if (label.ink !== ink) {
        ink = label.ink;
        on.fillStyle = this.inks.text[ink] ?? "#000000";
      }
      on.fillText(text, label.x + pad, label.y + dpr / 2);
    }
  }

  private axis(scene: Scene, left: number, scale: number): void {
    const { on } = this;
    const { layout, dpr, view, theme } = scene;
    const y = (layout.axisTop + layout.axisHeight / 2) * dpr;
    on.font = this.font(11);
    on.textAlign = "left";
    const marks = ticks(view.start, view.end, (110 * dpr) / scale, scene.origin);
    const bottom = scene.height * dpr;
    for (const { at, text } of marks) {
      const x = Math.round(left + (at - view.start) * scale);
      on.fillStyle = mix(theme.line, theme.ground, 0.7);
      on.fillRect(x, (layout.axisTop + 4) * dpr, Math.max(1, Math.round(dpr * 0.75)), bottom);
      if (x + 5 * dpr + on.measureText(text).width > scene.width * dpr) continue;
      on.fillStyle = theme.soft;
      on.fillText(text, x + 5 * dpr, y);
    }
    if (!left) return;
    on.fillStyle = theme.ground;
    on.fillRect(0, layout.axisTop * dpr, left, layout.axisHeight * dpr);
    on.fillStyle = theme.soft;
    on.font = this.font(12);
    on.fillText(`${shown(view.end - view.start, "ns")} in view`, 4 * dpr, y);
  }

  private steps(
    scene: Scene,
    lanes: TimelineLanes,
    item: Item,
    y: number,
    left: number,
    width: number,
    scale: number,
  ): void {
    const { on } = this;
    const { dpr, view, theme } = scene;
    const top = Math.round(y * dpr);
    const tall = Math.round(item.bar * dpr);
    on.textAlign = "left";
    on.font = this.font(11, "600");
    for (const step of stepsOf(lanes, item.rank)) {
      const x0 = left + (step.start + item.offset - view.start) * scale;
      const x1 = left + (step.end + item.offset - view.start) * scale;
      if (x1 < left || x0 > width) continue;
      const from = Math.max(left, x0);
      const to = Math.min(width, x1) - (x1 - x0 > 4 * dpr ? 1.5 * dpr : 0.5);
      on.fillStyle = !step.steady ? mix(theme.line, theme.ground, 0.5) : theme.line;
      if (to - from < 6 * dpr) on.fillRect(from, top, Math.max(0.5, to - from), tall);
      else {
        on.beginPath();
        on.roundRect(from, top, to - from, tall, 3 * dpr);
        on.fill();
      }
      const room = to - from - 12 * dpr;
      if (room < 14 * dpr) continue;
      const words = `step ${step.step} · ${shown(step.end - step.start, "ns")}${!step.steady ? ", not steady" : ""}`;
      const text = [words, `step ${step.step}`, `${step.step}`].find((one) => this.titles.width(one) * 1.02 <= room);
      if (!text) continue;
      on.fillStyle = theme.soft;
      on.fillText(printable(text), from + 6 * dpr, top + tall / 2 + dpr / 2);
    }
  }

  private counter(
    scene: Scene,
    item: Item,
    pieces: readonly Piece[],
    y: number,
    left: number,
    right: number,
    zero: number,
    scale: number,
  ): void {
    const { on } = this;
    const { dpr, theme } = scene;
    const base = Math.round((y + item.bar) * dpr);
    const tall = item.bar * dpr;
    const colour = theme.kinds[item.colour] ?? theme.kinds.computation ?? theme.accent;
    const top = this.highest(item, pieces);
    on.fillStyle = mix(theme.line, theme.ground, 0.55);
    on.fillRect(left, base, right - left, Math.max(1, Math.round(dpr * 0.5)));
    for (const [which, share] of [
      ["max", theme.dark ? 0.3 : 0.22],
      ["mean", theme.dark ? 0.6 : 0.45],
    ] as const) {
      on.fillStyle = mix(colour, theme.ground, share);
      on.beginPath();
      for (const { tile, start, end } of pieces) {
        const span = tile.counters.get(item.lane);
        if (!span) continue;
        const unit = tile.unit * scale;
        const origin = zero + tile.start * scale;
        const from = Math.max(left, zero + start * scale);
        const to = Math.min(right, zero + end * scale);
        const levels = tile[which].length ? tile[which] : tile.mean;
        for (let k = span.from; k < span.to; k++) {
          const x0 = Math.max(from, origin + (tile.time[k] ?? 0) * unit);
          const x1 = Math.min(to, k + 1 < span.to ? origin + (tile.time[k + 1] ?? 0) * unit : to);
          const value = levels[k] ?? NaN;
          if (x1 <= x0 || !(value > 0)) continue;
          const high = Math.max(dpr, Math.min(1, value / top) * tall);
          on.rect(x0, base - high, x1 - x0, high);
        }
      }
      on.fill();
    }
  }

  /** The top of a counter's lane: as the server says, else the highest level seen so far. */
  private highest(item: Item, pieces: readonly Piece[]): number {
    if (item.max > 0) return item.max;
    let top = this.tops.get(item.key) ?? 0;
    for (const { tile } of pieces) {
      const span = tile.counters.get(item.lane);
      if (!span) continue;
      const levels = tile.max.length ? tile.max : tile.mean;
      for (let k = span.from; k < span.to; k++) if ((levels[k] ?? 0) > top) top = levels[k] ?? 0;
    }
    if (item.unit === "fraction" && top > 0) top = Math.max(1, top);
    this.tops.set(item.key, top);
    return top || 1;
  }

  private readonly tops = new Map<string, number>();

  /** How far the lanes are scrolled, where there are more than fit. */
  private bar(scene: Scene, width: number): void {
    const { layout, dpr, theme } = scene;
    const seen = scene.height - layout.scrollTop;
    if (layout.height <= seen + 1 || seen < 40) return;
    const { on } = this;
    const long = Math.max(24, (seen / layout.height) * seen);
    const at = layout.scrollTop + (scene.scroll / (layout.height - seen)) * (seen - long);
    on.fillStyle = mix(theme.soft, theme.ground, 0.5);
    on.beginPath();
    on.roundRect(width - 6 * dpr, at * dpr, 4 * dpr, long * dpr, 2 * dpr);
    on.fill();
  }

  /** The depth at which the whole run is a tile or two. */
  static top(lanes: TimelineLanes): number {
    return zFor(Math.max(1, (lanes.end - lanes.start) / UNITS)) + 1;
  }
}

export function stepsOf(lanes: TimelineLanes, rank: number): readonly TimelineStep[] {
  return lanes.ranks.find((one: RankLanes) => one.rank === rank)?.steps ?? [];
}
