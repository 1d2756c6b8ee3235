/** What the pointer does in the picture: wheel, drags, touches, clicks. */

import { type Anchor, lanesBetween } from "../engine/area";
import { dropped, LABELS } from "../engine/arrange";
import { type Spot, spotAt } from "../engine/layout";
import type { Picture } from "./picture";
import type { Item } from "../engine/types";
import { clamp, panned, zoomed } from "../engine/view";

type Drag =
  | { what: "range" | "box"; from: number; anchor: Anchor }
  | { what: "pan"; x: number; y: number }
  | { what: "move"; item: Item }
  | { what: "labels" }
  | { what: "window"; grip: number }
  | { what: "edge"; side: "start" | "end" }
  | { what: "touch"; x: number; y: number }
  | {
      what: "press";
      x: number;
      y: number;
      spot: Spot | null;
      touch: boolean;
      as: "range" | "box" | "pan" | "move" | "labels";
    };

const SLOP = 4;
/** px beside the border of the labels in which it can be taken hold of. */
const BORDER = 3;

export class Gestures {
  private drag: Drag | null = null;
  private readonly touches = new Map<number, { x: number; y: number }>();
  private clicked = { at: 0, x: 0, y: 0 };
  private readonly undo: (() => void)[] = [];

  constructor(private readonly stage: Picture) {
    this.listen();
  }

  /** A button or a finger is down. */
  get dragging(): boolean {
    return this.drag !== null;
  }

  close(): void {
    for (const undo of this.undo) undo();
  }

  private place(event: { clientX: number; clientY: number }): { x: number; y: number } {
    const box = this.stage.root.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private on<K extends keyof HTMLElementEventMap>(
    target: HTMLElement | Window,
    name: K,
    act: (event: HTMLElementEventMap[K]) => void,
    options: AddEventListenerOptions = {},
  ): void {
    const timed = (event: Event) => {
      const began = performance.now();
      act(event as HTMLElementEventMap[K]);
      this.stage.spent += performance.now() - began;
    };
    target.addEventListener(name, timed, options);
    this.undo.push(() => target.removeEventListener(name, timed, options));
  }

  private listen(): void {
    const { root } = this.stage;
    this.on(root, "pointerdown", (event) => this.down(event));
    this.on(root, "pointermove", (event) => this.moved(event));
    this.on(root, "pointerup", (event) => this.up(event));
    this.on(root, "pointercancel", (event) => this.gone(event.pointerId));
    this.on(root, "pointerleave", () => this.leave());
    this.on(root, "wheel", (event) => this.wheel(event), { passive: false });
    // The ring shows where keys go, to those who use them.
    this.on(root, "focus", () => (root.dataset["keys"] = ""));
    this.on(root, "blur", () => delete root.dataset["keys"]);
    this.on(window, "keyup", (event) => this.stage.held.delete(event.key.toLowerCase()));
    this.on(window, "blur", () => this.stage.held.clear());
  }

  private wheel(event: WheelEvent): void {
    const { lanes, at } = this.stage;
    if (!lanes || !at) return;
    const lines = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? this.stage.height : 1;
    const { x } = this.place(event);
    const width = this.stage.target.end - this.stage.target.start;
    const across = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const speed = event.deltaMode === 0 && Math.abs(event.deltaY) < 40 ? 0.01 : 0.0022;
      this.stage.move(
        zoomed(
          this.stage.target,
          this.stage.timeIn(this.stage.target, Math.max(at.gutter, x)),
          Math.exp(event.deltaY * lines * speed),
          lanes,
        ),
      );
      return;
    }
    if (Math.abs(across) > Math.abs(event.shiftKey ? 0 : event.deltaY) * 0.5) {
      event.preventDefault();
      this.stage.move(
        panned(this.stage.target, ((across * lines) / Math.max(1, this.stage.width - at.gutter)) * width, lanes),
      );
    }
    if (event.shiftKey || !event.deltaY) return;
    const to = this.stage.scrolled(this.stage.scrollTarget + event.deltaY * lines);
    // Where the lanes end, the page goes on.
    if (to === this.stage.scrollTarget) return;
    event.preventDefault();
    this.stage.scrollTo(to);
  }

  private down(event: PointerEvent): void {
    const { at, lanes, root } = this.stage;
    if (!at || !lanes || event.button > 1) return;
    const { x, y } = this.place(event);
    delete root.dataset["keys"];
    root.focus({ preventScroll: true });
    delete root.dataset["keys"];
    root.setPointerCapture(event.pointerId);
    const touch = event.pointerType === "touch";
    if (touch) this.touches.set(event.pointerId, { x, y });
    if (this.touches.size === 2) {
      this.drag = null;
      return;
    }
    if (y < at.minimapTop + at.minimapHeight && x >= at.gutter) return this.downOnWhole(x);
    const pan = event.button === 1 || event.shiftKey || (y >= at.axisTop && y < at.axisTop + at.axisHeight);
    if (event.button === 1) event.preventDefault();
    const onBorder = at.gutter > 0 && !touch && Math.abs(x - at.gutter) <= BORDER;
    const as = onBorder
      ? "labels"
      : pan
        ? "pan"
        : x < at.gutter
          ? "move"
          : event.ctrlKey || event.metaKey
            ? "box"
            : "range";
    this.drag = { what: "press", x, y, spot: spotAt(at, y, this.stage.scroll), touch, as };
  }

  private downOnWhole(x: number): void {
    const { lanes, at } = this.stage;
    if (!lanes || !at) return;
    const scale = (this.stage.width - at.gutter) / (lanes.end - lanes.start);
    const left = at.gutter + (this.stage.target.start - lanes.start) * scale;
    const right = at.gutter + (this.stage.target.end - lanes.start) * scale;
    const wide = right - left > 16;
    if (wide && Math.abs(x - left) < 6) this.drag = { what: "edge", side: "start" };
    else if (wide && Math.abs(x - right) < 6) this.drag = { what: "edge", side: "end" };
    else {
      const inside = x > left - 4 && x < right + 4;
      this.drag = {
        what: "window",
        grip: inside
          ? this.stage.whole(x) - this.stage.target.start
          : (this.stage.target.end - this.stage.target.start) / 2,
      };
      if (!inside) this.draggedWindow(x, false);
    }
  }

  private draggedWindow(x: number, at_once: boolean): void {
    if (this.drag?.what !== "window" || !this.stage.lanes) return;
    const start = this.stage.whole(x) - this.drag.grip;
    this.stage.move(
      clamp({ start, end: start + this.stage.target.end - this.stage.target.start }, this.stage.lanes),
      at_once,
    );
  }

  private moved(event: PointerEvent): void {
    const here = this.place(event);
    const { x, y } = here;
    if (this.touches.has(event.pointerId) && this.touches.size === 2) return this.pinch(event.pointerId, here);
    if (event.pointerType !== "touch") this.stage.pointer = here;
    const { drag } = this;
    const { lanes, at } = this.stage;
    if (!lanes || !at) return;
    if (drag?.what === "press" && Math.hypot(x - drag.x, y - drag.y) > SLOP) {
      if (drag.touch) this.drag = { what: "touch", x: drag.x, y: drag.y };
      else if (drag.as === "labels") this.drag = { what: "labels" };
      else if (drag.as === "move" && drag.spot && drag.spot.item.kind !== "steps")
        this.drag = { what: "move", item: drag.spot.item };
      else if (drag.as === "pan" || drag.as === "move") this.drag = { what: "pan", x: drag.x, y: drag.y };
      else
        this.drag = {
          what: drag.as,
          from: this.stage.time(drag.x),
          anchor: { y: drag.y, scroll: this.stage.scroll },
        };
      this.stage.root.dataset["drag"] = this.drag.what;
      if (this.drag.what === "range") this.stage.told.begun?.();
    }
    this.dragged(x, y);
    if (!this.drag || this.drag.what === "press") this.cursorOver(x, y);
    this.stage.put({ pointer: this.stage.pointer });
    if (!this.drag) this.stage.seek();
  }

  private dragged(x: number, y: number): void {
    const { drag } = this;
    const { lanes, at } = this.stage;
    if (!drag || !lanes || !at) return;
    const perPixel = (this.stage.target.end - this.stage.target.start) / Math.max(1, this.stage.width - at.gutter);
    if (drag.what === "pan" || drag.what === "touch") {
      this.stage.move(panned(this.stage.target, (drag.x - x) * perPixel, lanes), true);
      const wanted = this.stage.scrollTarget + drag.y - y;
      this.stage.scrollTo(wanted, true);
      if (drag.what === "touch") window.scrollBy(0, wanted - this.stage.scrollTarget);
      drag.x = x;
      drag.y = y;
    } else if (drag.what === "range" || drag.what === "box") {
      const to = this.stage.time(Math.max(at.gutter, Math.min(this.stage.width, x)));
      const span = { start: Math.min(drag.from, to), end: Math.max(drag.from, to) };
      const { anchor } = drag;
      const began = anchor.y < at.scrollTop ? anchor.y : anchor.y + anchor.scroll - this.stage.scroll;
      const edge = Math.max(at.lanesTop, Math.min(this.stage.height, y));
      if (drag.what === "range") this.stage.setRange(span, lanesBetween(at, lanes, anchor, edge, this.stage.scroll));
      else this.stage.put({ box: { ...span, top: Math.min(began, edge), bottom: Math.max(began, edge) } });
    } else if (drag.what === "labels") {
      const labels = Math.round(Math.min(LABELS.most, Math.max(LABELS.least, x)));
      this.stage.arrange({ ...this.stage.how, labels });
    } else if (drag.what === "move") {
      const spot = spotAt(at, y, this.stage.scroll);
      const lower = spot && y > spot.top + spot.item.height / 2;
      this.stage.put({ drop: spot ? spot.top + (lower ? spot.item.height : 0) : null });
    } else if (drag.what === "window") {
      this.draggedWindow(x, true);
    } else if (drag.what === "edge") {
      const time = this.stage.whole(x);
      const view =
        drag.side === "start"
          ? { start: Math.min(time, this.stage.target.end - 100), end: this.stage.target.end }
          : { start: this.stage.target.start, end: Math.max(time, this.stage.target.start + 100) };
      this.stage.move(clamp(view, lanes), true);
    }
  }

  /** Two fingers: the instants beneath them stay beneath them. */
  private pinch(id: number, here: { x: number; y: number }): void {
    const { lanes, at } = this.stage;
    const other = [...this.touches].find(([key]) => key !== id)?.[1];
    const before = this.touches.get(id);
    this.touches.set(id, here);
    if (!lanes || !at || !other || !before) return;
    const apart = Math.max(12, Math.abs(before.x - other.x));
    const now = Math.max(12, Math.abs(here.x - other.x));
    const middle = this.stage.time((before.x + other.x) / 2);
    const perPixel = (this.stage.target.end - this.stage.target.start) / Math.max(1, this.stage.width - at.gutter);
    const zoom = zoomed(this.stage.target, middle, apart / now, lanes);
    this.stage.move(panned(zoom, -((here.x - before.x) / 2) * perPixel, lanes), true);
  }

  private up(event: PointerEvent): void {
    const { drag } = this;
    const { at } = this.stage;
    const here = this.place(event);
    this.gone(event.pointerId);
    if (!drag || !at) return;
    if (drag.what === "range" && this.stage.range) {
      const { start, end } = this.stage.range;
      this.stage.told.range({ start: Math.round(start), end: Math.round(end) }, this.stage.area);
      return;
    }
    if (drag.what === "box") return this.boxed(drag.from, drag.anchor, here);
    if (drag.what === "labels") return this.stage.told.arrange(this.stage.how);
    if (drag.what === "move") return this.drop(drag.item, here.y);
    if (drag.what === "press") void this.click(here.x, here.y, drag.spot);
  }

  /** A lane, a group or a rank stands beside what it was dropped on. */
  private drop(item: Item, y: number): void {
    const { at, lanes, how, scroll } = this.stage;
    this.stage.put({ drop: null });
    const spot = at && spotAt(at, y, scroll);
    if (!spot || !lanes || spot.item.key === item.key) return;
    this.stage.told.arrange(dropped(how, lanes, item, spot.item, y > spot.top + spot.item.height / 2));
  }

  /** To the time in the box, its lanes at the top. */
  private boxed(from: number, anchor: Anchor, { x, y }: { x: number; y: number }): void {
    const { at } = this.stage;
    this.stage.put({ box: null });
    if (!at) return;
    const to = this.stage.time(Math.max(at.gutter, Math.min(this.stage.width, x)));
    const began = anchor.y + anchor.scroll - this.stage.scroll;
    if (anchor.y >= at.scrollTop) this.stage.scrollTo(this.stage.scroll + Math.min(began, y) - at.scrollTop);
    this.stage.told.zoomed({ start: Math.min(from, to), end: Math.max(from, to) });
  }

  private gone(id: number): void {
    this.touches.delete(id);
    this.drag = null;
    this.stage.put({ drop: null, box: null });
    delete this.stage.root.dataset["drag"];
  }

  private leave(): void {
    if (this.drag) return;
    this.stage.pointer = null;
    this.stage.hover = null;
    this.stage.put({ pointer: null, hover: null });
    this.stage.told.hover(null, 0, 0, null);
  }

  private cursorOver(x: number, y: number): void {
    const { at } = this.stage;
    if (!at) return;
    const spot = spotAt(at, y, this.stage.scroll);
    const onLabel =
      spot &&
      (x < at.gutter ||
        spot.item.what === "rank" ||
        (!at.gutter && spot.item.what !== "lane") ||
        (spot.item.inset > 0 && y < spot.top + spot.item.inset) ||
        spot.more);
    const style =
      at.gutter && y > at.axisTop + at.axisHeight && Math.abs(x - at.gutter) <= BORDER
        ? "col-resize"
        : y < at.axisTop
          ? x < at.gutter
            ? "default"
            : "grab"
          : y < at.axisTop + at.axisHeight
            ? "ew-resize"
            : onLabel || this.stage.noteAt(x, y)
              ? "pointer"
              : "crosshair";
    if (this.stage.root.style.cursor !== style) this.stage.root.style.cursor = style;
  }

  private async click(x: number, y: number, spot: Spot | null): Promise<void> {
    const { at } = this.stage;
    if (!at) return;
    const now = performance.now();
    const again = now - this.clicked.at < 350 && Math.hypot(x - this.clicked.x, y - this.clicked.y) < 6;
    this.clicked = { at: again ? 0 : now, x, y };
    const note = this.stage.noteAt(x, y);
    if (note) return this.stage.told.note?.(note.id);
    if (spot && this.onLabel(spot, x, y)) return;
    const counter = spot?.item.kind === "counter";
    const mark = spot && spot.depth >= 0 && !counter ? await this.stage.markAt(spot, x) : null;
    if (again && mark) {
      if (spot && this.stage.hasSlices(spot.item) && spot.item.folded) this.stage.toggle(spot.item, "folded");
      this.stage.fit(mark);
      return;
    }
    this.stage.told.hover(null, 0, 0, null);
    if (mark) {
      this.stage.cursor = mark;
      this.stage.focus = "";
      this.stage.put({ focus: "" });
      this.stage.told.select(mark);
    } else if (spot?.item.kind === "steps") this.clickStep(spot.item, x, again);
    else if (!again && y > at.axisTop + at.axisHeight) this.stage.told.select(null);
  }

  private clickStep(item: Item, x: number, again: boolean): void {
    const step = this.stage.stepAt(item, x);
    if (!step) return;
    const span = { start: step.start + item.offset, end: step.end + item.offset };
    if (again) this.stage.fit(span);
    else this.stage.told.range(span, null);
  }

  /** A click on a label, or on what unfolds the rest of the rows. */
  private onLabel(spot: Spot, x: number, y: number): boolean {
    const { at } = this.stage;
    const { item } = spot;
    if (!at) return false;
    if (spot.more) {
      this.stage.toggle(item, "full");
      return true;
    }
    if (item.what !== "lane") {
      if (!at.gutter || x < at.gutter || item.what === "rank") this.stage.toggle(item, "folded");
      return true;
    }
    const label = at.gutter ? x < at.gutter : item.inset > 0 && y < spot.top + item.inset;
    if (!label) return false;
    const pin = at.gutter ? x > at.gutter - 22 : x > this.stage.width - 28;
    if (pin || !item.foldable) this.stage.toggle(item, "pinned");
    else this.stage.toggle(item, "folded");
    return true;
  }
}
