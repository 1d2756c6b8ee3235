/** The names of lanes, groups and ranks, at the left of the picture or above its lanes. */

import type { Unit } from "../../../api/blocks";
import { shown } from "../../../base/numbers";
import { printable } from "../../../base/text";
import type { Brush } from "./inks";
import { labelTop } from "./layout";
import { Measure } from "./text";
import type { Item, Scene } from "./types";

export class Titles {
  private dpr = 1;
  private family = "sans-serif";
  private measure = new Measure(() => 0);

  constructor(
    private readonly on: Brush,
    /** The highest level of a counter, by key of its lane. */
    private readonly top: (key: string) => number | undefined,
  ) {}

  /** Another theme, or another number of pixels. */
  ready(scene: Scene): void {
    this.dpr = scene.dpr;
    this.family = scene.theme.font;
    const font = this.font(12);
    this.measure = new Measure((text) => {
      const before = this.on.font;
      this.on.font = font;
      const wide = this.on.measureText(text).width;
      this.on.font = before;
      return wide;
    });
  }

  private font(size: number, weight = ""): string {
    return `${weight} ${size * this.dpr}px ${this.family}`.trim();
  }

  /** How wide a title of 12 px is. */
  width(text: string): number {
    return this.measure.width(text);
  }

  draw(scene: Scene, item: Item, y: number, left: number, width: number): void {
    if (item.what === "lane") this.laneTitle(scene, item, y, left, width);
    else this.header(scene, item, y, width);
  }

  header(scene: Scene, item: Item, y: number, width: number, ground = false): void {
    const { on, dpr } = this;
    const { theme } = scene;
    const rank = item.what === "rank";
    const top = Math.round(y * dpr);
    if (item.line && !ground) return this.rankTitle(scene, item, y, width);
    if (ground) {
      on.fillStyle = theme.ground;
      on.fillRect(0, top, width, Math.round((item.height - 2) * dpr));
    }
    if (rank) {
      on.fillStyle = theme.line;
      on.fillRect(0, top + Math.round(2 * dpr), width, Math.max(1, Math.round(dpr)));
    }
    this.words(item, y + item.height / 2 + (rank ? 2 : 3), rank ? theme.ink : theme.soft, theme.soft, width / dpr - 30);
  }

  /** The name of a rank, left of its line or above it, and what is said of it. */
  private rankTitle(scene: Scene, item: Item, y: number, width: number): void {
    const { on, dpr } = this;
    const { theme, layout } = scene;
    const left = layout.gutter;
    // The title of a thin line reaches over its neighbours.
    if (left && item.height > 12) {
      on.fillStyle = theme.ground;
      on.fillRect(0, Math.round(y * dpr), Math.round((left - 2) * dpr), Math.ceil(item.height * dpr));
    }
    const loud = item.note ? (theme.kinds.waiting ?? theme.ink) : theme.ink;
    const words = item.note ? { ...item, title: `${item.title} · ${item.note}` } : item;
    if (!item.quiet) this.words(words, y + (left ? item.height / 2 : 8), loud, theme.soft, (left || width / dpr) - 28);
    if (!item.note || !left) return;
    on.fillStyle = loud;
    on.fillRect(
      Math.round((left - 4) * dpr),
      Math.round((y + (item.height > 12 ? 3 : 1)) * dpr),
      Math.round(3 * dpr),
      Math.round(Math.max(3, item.height - (item.height > 12 ? 6 : 2)) * dpr),
    );
  }

  private laneTitle(scene: Scene, item: Item, y: number, left: number, width: number): void {
    const { on, dpr } = this;
    const { theme, layout } = scene;
    if (left) {
      on.fillStyle = theme.ground;
      on.fillRect(0, Math.round(y * dpr), left - Math.round(2 * dpr), Math.ceil(item.height * dpr));
      const middle = labelTop(layout, item, y, scene.scroll) + Math.min(item.bar, 20) / 2;
      this.words(item, middle, theme.soft, theme.soft, left / dpr - 28 - item.indent - (item.pinned ? 12 : 0));
      if (item.pinned) this.pin(left - 14 * dpr, middle * dpr, theme.soft);
      if (item.kind === "counter" && item.bar > 20) this.extent(item, middle + 13, theme.soft);
    } else if (item.kind !== "steps") {
      const room = width / dpr - 30;
      on.font = this.font(12);
      on.fillStyle = theme.ground;
      on.fillRect(
        (16 + item.indent) * dpr,
        Math.round((y + 1) * dpr),
        this.measure.width(this.measure.fit(printable(item.title), room * dpr)) + 4 * dpr,
        15 * dpr,
      );
      this.words(item, y + 8, theme.soft, theme.soft, room);
    }
    if (item.hidden > 0 && !item.folded) {
      on.font = this.font(11);
      on.fillStyle = theme.accent;
      const x = Math.max(left + 4 * dpr, (18 + item.indent) * dpr);
      on.fillText(
        `${item.hidden} more row${item.hidden > 1 ? "s" : ""}`,
        x,
        (y + item.inset + item.rows * item.pitch + 9) * dpr,
      );
    }
  }

  /** The chevron and the title of an item. */
  private words(item: Item, middle: number, colour: string, soft: string, room: number): void {
    const { on, dpr } = this;
    const x = 4 + item.indent;
    if (item.foldable) this.chevron((x + 4) * dpr, middle * dpr, item.folded, soft);
    on.font = this.font(12, item.what === "rank" ? "600" : "");
    on.fillStyle = colour;
    on.textAlign = "left";
    on.fillText(this.measure.fit(printable(item.title), room * dpr), (x + 14) * dpr, middle * dpr);
  }

  /** Of a counter: what its height means. */
  private extent(item: Item, middle: number, colour: string): void {
    const { on, dpr } = this;
    on.font = this.font(11);
    on.fillStyle = colour;
    const extent = `0 to ${level(this.top(item.key) ?? item.max, item.unit)}`;
    on.fillText(item.note ? `${extent} · ${item.note}` : extent, (18 + item.indent) * dpr, middle * dpr);
  }

  private chevron(x: number, y: number, folded: boolean, colour: string): void {
    const { on, dpr } = this;
    const reach = 3 * dpr;
    on.strokeStyle = colour;
    on.lineWidth = 1.25 * dpr;
    on.beginPath();
    if (folded) {
      on.moveTo(x - reach / 2, y - reach);
      on.lineTo(x + reach / 2, y);
      on.lineTo(x - reach / 2, y + reach);
    } else {
      on.moveTo(x - reach, y - reach / 2);
      on.lineTo(x, y + reach / 2);
      on.lineTo(x + reach, y - reach / 2);
    }
    on.stroke();
  }

  private pin(x: number, y: number, colour: string): void {
    const { on, dpr } = this;
    on.fillStyle = colour;
    on.beginPath();
    on.arc(x, y - dpr, 2.5 * dpr, 0, 7);
    on.fill();
    on.fillRect(x - dpr / 2, y, dpr, 5 * dpr);
  }
}

/** The level of a counter in words: units of the schema as everywhere, others as they are called. */
export function level(value: number, unit: string): string {
  if (unit === "" || KNOWN.has(unit as Unit)) return shown(value, unit as Unit);
  return `${shown(value, "")}\u00a0${printable(unit)}`;
}

const KNOWN: ReadonlySet<Unit> = new Set<Unit>(["ns", "bytes", "bytes/s", "flop", "flop/s", "fraction"]);
