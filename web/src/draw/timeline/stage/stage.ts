/**
 * The timeline's picture as the page sees it: what is in view, how it moves, what the pointer does.
 *
 * All it does in a frame is to move the window and to tell the painter; drawing, tiles and finding marks are the
 * painter's. What a frame costs here is measured as "timeline-frame".
 */

import { type Chosen, lanesBehind } from "../engine/area";
import { flagAt } from "../engine/flags";
import { Gestures } from "./gestures";
import { type Arrangement, type Flipped, flipped, keyOf, nudged, PLAIN, resized } from "../engine/arrange";
import { layout, rowAt, type Spot, spotAt, unfolded, type Used } from "../engine/layout";
import { PainterLink } from "./link";
import type { Picture, Told } from "./picture";
import type { Colouring } from "../engine/hues";
import type { Arrow, TimelineLanes, TimelineStep } from "../../../api/answers";
import type { DrawnLanes, Flag, InView, Item, Layout, Mark, Scene, Side, Span, Theme } from "../engine/types";
import { clamp, eased, fitted, limits, panned, shown, zoomed } from "../engine/view";

const KEPT_MEASURES = 2000;
/** What a short press of a key is worth, in ms of holding it. */
const NUDGE = 50;
const RATE = { zoom: 0.0042, pan: 0.0011 };

const NOWHERE: Span = { start: 0, end: 1 };

export class Stage implements Picture {
  readonly link: PainterLink;
  private readonly base = document.createElement("canvas");
  private readonly over = document.createElement("canvas");
  lanes: TimelineLanes | null = null;
  how: Arrangement = PLAIN;
  at: Layout | null = null;
  width = 0;
  height = 0;
  private dpr = 1;
  view: Span = NOWHERE;
  target: Span = NOWHERE;
  scroll = 0;
  private room = 0;
  private used: ReadonlyMap<string, Used> = new Map();
  /** The first row of each lane that was shown when it was first seen. */
  private readonly opened = new Map<string, number>();
  private ranks: ReadonlyMap<number, string> = new Map();
  scrollTarget = 0;
  private change: Partial<Scene> = {
    scroll: 0,
    origin: 0,
    colouring: "kind",
    hover: null,
    pointer: null,
    selected: null,
    arrows: [],
    range: null,
    area: null,
    box: null,
    measures: [],
    notes: [],
    path: null,
    focus: "",
    drop: null,
    matches: null,
  };
  private due = false;
  private last = 0;
  spent = 0;
  private frames = 0;
  readonly held = new Set<string>();
  pointer: { x: number; y: number } | null = null;
  private asking = false;
  private askAgain = false;
  hover: Mark | null = null;
  range: Span | null = null;
  area: Chosen = null;
  private measures: Span[] = [];
  private notes: readonly Flag[] = [];
  private marked: number | null = null;
  private selected: Mark | null = null;
  cursor: Mark | null = null;
  focus = "";
  private settle: ReturnType<typeof setTimeout> | undefined;
  private readonly watch: ResizeObserver;
  private readonly gestures: Gestures;
  private readonly still = matchMedia("(prefers-reduced-motion: reduce)");
  /** Of the painter's last frame, for tests and benchmarks. */
  painted = { ms: 0, waiting: 0, bytes: 0, frames: 0 };

  constructor(
    readonly root: HTMLElement,
    tiles: string | null,
    readonly told: Told,
  ) {
    for (const canvas of [this.base, this.over]) {
      canvas.setAttribute("aria-hidden", "true");
      root.append(canvas);
    }
    this.base.dataset["testid"] = "timeline";
    this.link = new PainterLink(this.base, this.over, tiles, {
      drawn: ({ ms, waiting, bytes, failed }) => {
        this.painted = { ms, waiting, bytes, frames: this.painted.frames + 1 };
        root.dataset["waiting"] = String(waiting);
        root.dataset["paint"] = ms.toFixed(1);
        this.told.trouble(failed);
        if (waiting === 0 && this.pointer && !this.gestures.dragging) this.seek();
      },
      used: (lanes) => this.use(lanes),
      tile: told.tile,
    });
    this.watch = new ResizeObserver(() => this.measure());
    this.watch.observe(root);
    this.gestures = new Gestures(this);
    this.measure();
  }

  // What the page says.

  setLanes(lanes: DrawnLanes, view: Span | null): void {
    this.lanes = lanes;
    this.link.lanes(lanes);
    this.view = this.target = clamp(view ?? limits(lanes), lanes);
    this.scroll = this.scrollTarget = 0;
    this.hover = null;
    this.put({ view: this.view, scroll: 0, hover: null, origin: 0 });
    this.arrange(this.how);
    this.rest();
    this.link.look();
  }

  setColouring(colouring: Colouring): void {
    this.put({ colouring });
  }

  setTheme(theme: Theme): void {
    this.put({ theme });
  }

  arrange(how: Arrangement): void {
    this.how = how;
    if (!this.lanes || !this.width) return;
    this.at = layout(this.lanes, how, this.width, this.room, {
      used: this.used,
      ranks: this.ranks,
      notes: this.notes.length > 0,
    });
    this.told.height(this.at.scrollTop + this.at.height + 4);
    this.scrollTarget = this.scroll = this.scrolled(this.scrollTarget);
    this.put({ layout: this.at, scroll: this.scroll });
    this.see();
  }

  /** What is said of ranks, beside their names. */
  setRanks(ranks: ReadonlyMap<number, string>): void {
    this.ranks = ranks;
    this.arrange(this.how);
  }

  /** Rows that hold nothing in view are squeezed out. What is under the pointer, or at the top, stays where it is. */
  private use(lanes: readonly InView[]): void {
    const next = new Map(this.used);
    for (const { rank, lane, depths, branch } of lanes) {
      const key = keyOf.lane(rank, lane);
      const split = depths.indexOf(branch);
      const from = depths[Math.max(0, split - 1)] ?? 0;
      const opened = Math.min(from, this.opened.get(key) ?? from);
      if (depths.length && !this.opened.has(key)) this.opened.set(key, from);
      next.set(key, { depths, from: opened });
    }
    const same = [...next].every(([key, { depths, from }]) => {
      const now = this.used.get(key);
      return now && now.from === from && now.depths.join() === depths.join();
    });
    if (same) return;
    this.used = next;
    const anchor = this.anchor();
    this.arrange(this.how);
    const there = anchor && this.at?.scrolled.find(({ key }) => key === anchor.key);
    if (there && anchor && (this.scroll > 0 || this.pointer)) this.scrollTo(this.scroll + there.top - anchor.top, true);
  }

  private anchor(): Item | null {
    if (!this.at) return null;
    const { at, scroll } = this;
    const spot = this.pointer && spotAt(at, this.pointer.y, scroll);
    return (
      (spot && at.scrolled.includes(spot.item) && spot.item) || at.scrolled.find(({ top }) => top >= scroll) || null
    );
  }

  /** Which lanes can be seen without scrolling, for tests. */
  private see(): void {
    const { at } = this;
    if (!at || !this.height) return;
    const seen = at.scrolled.filter(
      ({ top, height }) => at.scrollTop + top - this.scroll + Math.min(height, 20) <= this.height,
    );
    this.root.dataset["sight"] = [...at.pinned, ...seen]
      .filter(({ top }) => top >= 0)
      .map(
        ({ what, kind, title, note }) =>
          `${what === "lane" ? kind : what}: ${title}${what === "rank" && note ? ` · ${note}` : ""}`,
      )
      .join("; ");
  }

  setSelected(mark: Mark | null, arrows: readonly Arrow[]): void {
    this.selected = mark;
    if (mark) this.unfold(mark);
    this.cursor = mark;
    this.hover = null;
    this.put({ selected: mark, arrows, hover: null });
  }

  /** A row that is folded away is shown, if a mark in it is. */
  private unfold(mark: Mark): void {
    if (!this.lanes || !this.at) return;
    const how = unfolded(this.lanes, this.how, this.at, mark);
    if (how === this.how) return;
    this.arrange(how);
    this.told.arrange(how, true);
  }

  setRange(range: Span | null, area: Chosen = null): void {
    this.range = range;
    this.area = range && area;
    this.put({ range, area: this.area });
  }

  setMeasures(measures: Span[]): void {
    this.measures = measures;
    this.marked = null;
    this.put({ measures });
  }

  setNotes(notes: readonly Flag[]): void {
    const strip = notes.length > 0 !== this.notes.length > 0;
    this.notes = notes;
    this.put({ notes });
    if (strip) this.arrange(this.how);
  }

  setPath(path: Scene["path"]): void {
    this.put({ path });
  }

  /** The note whose tag is at a place of the canvas. */
  noteAt(x: number, y: number): Flag | null {
    return this.at && flagAt(this.notes, this.view, this.at, this.width, x, y);
  }

  /** The instant under the pointer; without one that in the middle of what is in view. */
  instant(): number {
    const x = this.pointer && this.at && this.pointer.x > this.at.gutter ? this.pointer.x : null;
    return Math.round(x === null ? (this.view.start + this.view.end) / 2 : this.time(x));
  }

  setMatches(matches: Scene["matches"]): void {
    this.put({ matches });
  }

  get window(): Span {
    return this.target;
  }

  get current(): Mark | null {
    return this.cursor ?? this.selected;
  }

  close(): void {
    this.gestures.close();
    this.watch.disconnect();
    clearTimeout(this.settle);
    this.link.close();
    this.base.remove();
    this.over.remove();
  }

  picture(): Promise<Blob | null> {
    return this.link.picture();
  }

  // Moving.

  /** The whole run, or what is given, with room around it. */
  fit(span: Span | null, at_once = false): void {
    if (!this.lanes) return;
    this.move(span ? fitted(span, this.lanes) : limits(this.lanes), at_once);
  }

  /** Exactly this window. */
  show(view: Span, at_once = false): void {
    if (this.lanes) this.move(clamp(view, this.lanes), at_once);
  }

  /** A mark, in the middle if it is not in sight; its lane too. */
  reveal(mark: { rank: number; lane: string; depth: number } & Span, at_once = false): void {
    if (!this.lanes || !this.at) return;
    this.move(shown(this.target, mark, this.lanes), at_once);
    this.uncover(mark);
  }

  /** Scrolls until the row of a mark is in sight. */
  private uncover(mark: { rank: number; lane: string; depth: number }): void {
    const row = this.at && rowAt(this.at, mark.rank, mark.lane, mark.depth, this.scrollTarget);
    if (!this.at || !row || row.pinned) return;
    const above = row.top - this.at.scrollTop - 24;
    const below = row.top + row.bar + 24 - this.height;
    if (above < 0) this.scrollTo(this.scrollTarget + above);
    else if (below > 0) this.scrollTo(this.scrollTarget + below);
  }

  move(view: Span, at_once = false): void {
    this.target = view;
    if (at_once || this.still.matches) {
      this.view = view;
      this.change.view = view;
      this.rest();
    }
    this.ask();
  }

  scrollTo(to: number, at_once = false): void {
    this.scrollTarget = this.scrolled(to);
    if (at_once || this.still.matches) this.change.scroll = this.scroll = this.scrollTarget;
    this.ask();
  }

  scrolled(to: number): number {
    const most = this.at ? this.at.height - (this.height - this.at.scrollTop) : 0;
    return Math.max(0, Math.min(Math.max(0, most), to));
  }

  /** A key that moves as long as it is held: w, s, a, d. A short press moves a little, too. */
  hold(key: string): void {
    if (this.held.has(key)) return;
    this.held.add(key);
    this.push(key, NUDGE);
    this.ask();
  }

  private push(key: string, ms: number): void {
    if (!this.lanes) return;
    const view = this.target;
    const way = key === "d" || key === "s" ? 1 : -1;
    if (key === "a" || key === "d")
      this.target = panned(view, way * (view.end - view.start) * RATE.pan * ms, this.lanes);
    else this.target = zoomed(view, this.middle(), Math.exp(way * RATE.zoom * ms), this.lanes);
  }

  /** What keys zoom at: the pointer, if it is over the lanes. */
  private middle(): number {
    const over = this.pointer !== null && this.at !== null && this.pointer.x > this.at.gutter;
    return over && this.pointer ? this.timeIn(this.target, this.pointer.x) : (this.target.start + this.target.end) / 2;
  }

  measureHere(): void {
    const mark = this.selected ?? this.hover;
    if (this.range) return this.keep(this.range);
    if (mark && this.marked === null && !this.pointerFree(mark)) return this.keep({ start: mark.start, end: mark.end });
    const time = this.pointer ? this.time(this.pointer.x) : (this.view.start + this.view.end) / 2;
    if (this.marked === null) {
      this.marked = time;
      this.put({ measures: [...this.measures, { start: time, end: time }] });
    } else this.keep({ start: Math.min(this.marked, time), end: Math.max(this.marked, time) });
  }

  /** The pointer is on no mark, but somewhere in the lanes: then it is the place that is measured. */
  private pointerFree(mark: Mark): boolean {
    return mark === this.selected && this.pointer !== null && this.hover === null;
  }

  private keep(span: Span): void {
    const same = (one: Span) => one.start === span.start && one.end === span.end;
    this.setMeasures(this.measures.some(same) ? this.measures.filter((one) => !same(one)) : [...this.measures, span]);
    this.told.measures(this.measures);
  }

  /** The mark beside, above or below the one that the keyboard is on; from the lanes' edge to the next lane. */
  async step(side: Side): Promise<void> {
    if (!this.at || !this.lanes) return;
    const from = this.current;
    if (!from) return this.first();
    if (side === "next" || side === "previous") {
      const found = await this.link.beside(from, side);
      if (found) return this.reached(found);
      this.move(
        panned(this.target, (this.target.end - this.target.start) * (side === "next" ? 0.5 : -0.5), this.lanes),
      );
      return;
    }
    const found = await this.beneath(from, side === "down" ? 1 : -1);
    if (found) return this.reached(found);
    const order = this.marksOf();
    const place = order.findIndex((item) => item.rank === from.rank && item.lane === from.lane);
    const middle = Math.min(this.target.end, Math.max(this.target.start, (from.start + from.end) / 2));
    const way = side === "down" ? 1 : -1;
    for (let next = place + way; next >= 0 && next < order.length; next += way) {
      const item = order[next] as Item;
      const mark = await this.link.hit(
        item.rank,
        item.lane,
        item.depths[0] ?? 0,
        middle,
        this.target.end - this.target.start,
      );
      if (mark) return this.reached(mark);
    }
    this.told.reach(null, side === "down" ? "further down" : "further up");
  }

  /** The mark in the next row of the lane, among those that hold something in view. */
  private async beneath(from: Mark, by: 1 | -1): Promise<Mark | null> {
    const item = this.marksOf().find((one) => one.rank === from.rank && one.lane === from.lane);
    const depths = item?.depths ?? [];
    const place = depths.indexOf(from.depth);
    const long = from.end - from.start;
    for (const depth of by > 0 ? depths.slice(place + 1) : depths.slice(0, Math.max(0, place)).toReversed()) {
      const mark = await this.link.hit(from.rank, from.lane, depth, from.start + long / 2, by > 0 ? long / 2 : long);
      if (mark) return mark;
    }
    return null;
  }

  private marksOf(): Item[] {
    return this.at
      ? [...this.at.pinned, ...this.at.scrolled].filter(
          (item) => item.what === "lane" && (item.kind === "host" || item.kind === "device" || item.kind === "extra"),
        )
      : [];
  }

  private async first(): Promise<void> {
    const middle = (this.target.start + this.target.end) / 2;
    for (const item of this.marksOf()) {
      const mark = await this.link.hit(
        item.rank,
        item.lane,
        item.depths[0] ?? 0,
        middle,
        (this.target.end - this.target.start) / 2,
      );
      if (mark) return this.reached(mark);
    }
  }

  private reached(mark: Mark): void {
    this.unfold(mark);
    this.cursor = mark;
    const item = this.marksOf().find((one) => one.rank === mark.rank && one.lane === mark.lane);
    this.focus = item?.key ?? "";
    this.hover = mark;
    this.put({ hover: mark, focus: this.focus });
    this.reveal(mark);
    this.told.reach(mark, item?.title ?? mark.lane);
  }

  /** Selects what the keyboard is on. */
  enter(): void {
    if (this.cursor) this.told.select(this.cursor);
    else void this.first();
  }

  /** The lane, group or rank that the keyboard is on, else the one under the pointer. */
  private here(): Item | null {
    const { at, pointer } = this;
    const focused = at && [...at.pinned, ...at.scrolled].find((one) => one.key === this.focus);
    return focused ?? (at && pointer && spotAt(at, pointer.y, this.scroll)?.item) ?? null;
  }

  toggleHere(what: Flipped): void {
    const item = this.here();
    if (item && item.kind !== "steps") this.toggle(item, what);
  }

  /** What stands where the keyboard or the pointer is, as the lanes of an area; null: all. */
  areaHere(): Chosen {
    const item = this.here();
    const keys = item && this.lanes ? lanesBehind(item, this.lanes) : [];
    return keys.length ? keys : null;
  }

  /** One place up or down among its siblings. */
  nudgeHere(by: 1 | -1): void {
    const item = this.here();
    if (item && this.lanes) this.told.arrange(nudged(this.how, this.lanes, item, by));
  }

  /** Higher or lower rows. */
  resizeHere(by: number): void {
    const item = this.here();
    if (item?.what === "lane") this.told.arrange(resized(this.how, item.key, by));
  }

  /** Replays of graphs are slices in it, which a double click opens. */
  hasSlices({ rank, lane }: Item): boolean {
    const own = this.lanes?.ranks.find((one) => one.rank === rank);
    return !!own?.groups.some(({ lanes }) => lanes.some(({ id, slices }) => id === lane && slices !== null));
  }

  toggle(item: Item, what: Flipped): void {
    this.told.arrange(flipped(this.how, what, what === "folded" ? item.toggles : item.key));
  }

  // Frames.

  put(part: Partial<Scene>): void {
    Object.assign(this.change, part);
    this.ask();
  }

  private ask(): void {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame((now) => this.frame(now));
  }

  private frame(now: number): void {
    this.due = false;
    const began = performance.now();
    const passed = Math.min(60, this.last ? now - this.last : 16);
    this.last = now;
    this.advance(passed);
    if (this.change.view) this.told.moved?.(this.view);
    if (Object.keys(this.change).length) {
      this.link.scene(this.change);
      this.change = {};
    }
    if (this.view !== this.target || this.scroll !== this.scrollTarget || this.held.size) this.ask();
    else this.last = 0;
    const ended = performance.now();
    performance.measure("timeline-frame", {
      start: Math.max(0, began - this.spent),
      end: ended,
      detail: { events: this.spent },
    });
    this.spent = 0;
    if (++this.frames % KEPT_MEASURES === 0) performance.clearMeasures("timeline-frame");
  }

  private advance(passed: number): void {
    if (!this.lanes) return;
    for (const key of this.held) this.push(key, passed);
    if (this.view !== this.target) {
      this.view = this.still.matches ? this.target : eased(this.view, this.target, passed);
      this.change.view = this.view;
      this.rest();
    }
    if (this.scroll !== this.scrollTarget) {
      const next = this.scroll + (this.scrollTarget - this.scroll) * (1 - Math.exp(-passed / 45));
      this.scroll = Math.abs(next - this.scrollTarget) < 0.5 ? this.scrollTarget : next;
      this.change.scroll = this.scroll;
    }
  }

  private rest(): void {
    clearTimeout(this.settle);
    this.settle = setTimeout(() => {
      this.told.settled(this.target);
      this.link.look();
      this.seek();
    }, 220);
  }

  private measure(): void {
    const width = this.root.clientWidth;
    const height = this.root.clientHeight;
    const dpr = Math.min(3, devicePixelRatio || 1);
    if (!width || !height || (width === this.width && height === this.height && dpr === this.dpr)) return;
    const wider = width !== this.width;
    Object.assign(this, { width, height, dpr });
    this.put({ width, height, dpr });
    // With less room the rows stay as many as they are: nothing moves as the panel opens.
    const room = height - (this.at?.lanesTop ?? 54);
    const grows = wider || room > this.room;
    if (grows) this.room = room;
    if (grows || !this.at) this.arrange(this.how);
    else this.scrollTo(this.scrollTarget, true);
    this.see();
    if (this.selected) this.uncover(this.selected);
  }

  // Places.

  /** The step of a ruler at a place. */
  stepAt(item: Item, x: number): TimelineStep | null {
    const time = this.time(x) - item.offset;
    const own = this.lanes?.ranks.find(({ rank }) => rank === item.rank);
    return own?.steps.find((one) => time >= one.start && time < one.end) ?? null;
  }

  timeIn(view: Span, x: number): number {
    const gutter = this.at?.gutter ?? 0;
    return view.start + ((x - gutter) / Math.max(1, this.width - gutter)) * (view.end - view.start);
  }

  time(x: number): number {
    return this.timeIn(this.view, x);
  }

  whole(x: number): number {
    const { lanes, at } = this;
    if (!lanes || !at) return 0;
    return lanes.start + ((x - at.gutter) / Math.max(1, this.width - at.gutter)) * (lanes.end - lanes.start);
  }

  markAt(spot: Spot, x: number): Promise<Mark | null> {
    const perPixel = (this.view.end - this.view.start) / Math.max(1, this.width - (this.at?.gutter ?? 0));
    return this.link.hit(spot.item.rank, spot.item.lane, spot.depth, this.time(x), 3 * perPixel, spot.strip);
  }

  /** What is under the pointer: one question at a time. */
  seek(): void {
    if (this.asking) {
      this.askAgain = true;
      return;
    }
    const { pointer, at } = this;
    if (!pointer || !at || this.gestures.dragging) return;
    const spot = spotAt(at, pointer.y, this.scroll);
    if (!spot || (spot.depth < 0 && !spot.strip) || pointer.x < at.gutter || pointer.y < at.lanesTop) {
      this.hovering(null, spot);
      return;
    }
    this.asking = true;
    void this.markAt(spot, pointer.x).then((mark) => {
      this.asking = false;
      if (this.pointer) this.hovering(mark, spot);
      if (this.askAgain) {
        this.askAgain = false;
        this.seek();
      }
    });
  }

  private hovering(mark: Mark | null, spot: Spot | null): void {
    const same =
      mark &&
      this.hover &&
      mark.row === this.hover.row &&
      mark.lane === this.hover.lane &&
      mark.start === this.hover.start;
    if (!same && mark !== this.hover) this.put({ hover: mark });
    this.hover = mark;
    if (this.pointer) this.told.hover(mark, this.pointer.x, this.pointer.y, spot);
  }
}
