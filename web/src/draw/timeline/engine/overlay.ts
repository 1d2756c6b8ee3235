/** What lies over the lanes: the pointer's line, the marks hovered and selected, arrows, the range, measures. */

import { isCovered } from "./area";
import { drawFlags, drawOnMap } from "./flags";
import { type Brush, mix } from "./inks";
import { labelTop, rowAt, spotAt } from "./layout";
import { shown } from "../../../base/numbers";
import { printable } from "../../../base/text";
import { instant } from "./ruler";
import { Measure } from "./text";
import type { Arrow, ArrowEnd, TimelineLanes } from "../../../api/answers";
import type { Mark, Scene } from "./types";

const MOST_ARROWS = 40;

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
  shown: boolean;
}

export class Overlay {
  /** Widths of letters of 11 px. */
  private readonly letters: Measure;

  constructor(private readonly on: Brush) {
    this.letters = new Measure((text) => on.measureText(text).width);
  }

  draw(scene: Scene, lanes: TimelineLanes): void {
    const { on } = this;
    const { dpr, layout } = scene;
    on.setTransform(1, 0, 0, 1, 0, 0);
    on.clearRect(0, 0, Math.ceil(scene.width * dpr), Math.ceil(scene.height * dpr));
    on.setTransform(dpr, 0, 0, dpr, 0, 0);
    on.textBaseline = "middle";
    on.textAlign = "left";
    on.save();
    on.beginPath();
    on.rect(layout.gutter, 0, scene.width - layout.gutter, layout.axisTop);
    on.clip();
    drawOnMap(on, scene, lanes);
    on.restore();
    on.save();
    on.beginPath();
    on.rect(layout.gutter, layout.axisTop, scene.width - layout.gutter, scene.height - layout.axisTop);
    on.clip();
    this.range(scene, lanes);
    this.box(scene);
    on.font = `11px ${scene.theme.font}`;
    drawFlags(on, scene, (text, room) => this.letters.fit(text, room));
    this.path(scene, lanes);
    this.marks(scene);
    this.arrows(scene, lanes);
    scene.measures.forEach((span, at) => this.measure(scene, span.start, span.end, at));
    this.pointer(scene);
    on.restore();
    this.focus(scene);
    if (scene.drop !== null) {
      on.fillStyle = scene.theme.accent;
      on.fillRect(0, Math.round(scene.drop) - 1, scene.width, 2);
    }
    this.pin(scene);
  }

  private x(scene: Scene, time: number): number {
    const wide = scene.width - scene.layout.gutter;
    return scene.layout.gutter + ((time - scene.view.start) / (scene.view.end - scene.view.start)) * wide;
  }

  private markBox(scene: Scene, mark: Mark): Box | null {
    const row = rowAt(scene.layout, mark.rank, mark.lane, mark.depth, scene.scroll);
    if (!row) return null;
    const x = this.x(scene, mark.start);
    const width = Math.max(2, this.x(scene, mark.end) - x);
    const shown = row.pinned || row.top + row.bar > scene.layout.scrollTop;
    return { x, y: row.top, width, height: row.bar, shown };
  }

  private box(scene: Scene): void {
    const { on } = this;
    const { box } = scene;
    if (!box) return;
    const x = this.x(scene, box.start);
    on.strokeStyle = scene.theme.ink;
    on.lineWidth = 1;
    on.setLineDash([4, 3]);
    on.strokeRect(x, box.top, this.x(scene, box.end) - x, box.bottom - box.top);
    on.setLineDash([]);
  }

  /** The lanes of an area more strongly than the rest of its time. */
  private area(scene: Scene, lanes: TimelineLanes, x: number, wide: number): void {
    const { on } = this;
    const { layout } = scene;
    const chosen = new Set(scene.area);
    for (const [list, shift, edge] of [
      [layout.pinned, layout.lanesTop, layout.lanesTop],
      [layout.scrolled, layout.scrollTop - scene.scroll, layout.scrollTop],
    ] as const)
      for (const item of list) {
        const top = Math.max(edge, shift + item.top);
        const bottom = Math.min(scene.height, shift + item.top + item.height);
        if (bottom > top && isCovered(item, lanes, chosen)) on.fillRect(x, top, wide, bottom - top);
      }
  }

  private range(scene: Scene, lanes: TimelineLanes): void {
    if (!scene.range) return;
    const { on } = this;
    const { theme, layout } = scene;
    const x0 = this.x(scene, scene.range.start);
    const x1 = this.x(scene, scene.range.end);
    const top = layout.axisTop;
    on.fillStyle = theme.accent;
    on.globalAlpha = scene.area ? 0.03 : 0.09;
    on.fillRect(x0, top, x1 - x0, scene.height - top);
    on.globalAlpha = 0.14;
    if (scene.area) this.area(scene, lanes, x0, x1 - x0);
    on.globalAlpha = 0.9;
    for (const x of [x0, x1]) on.fillRect(Math.round(x) - 0.5, top, 1, scene.height - top);
    on.globalAlpha = 1;
    this.tag(
      scene,
      (x0 + x1) / 2,
      top + layout.axisHeight / 2,
      shown(scene.range.end - scene.range.start, "ns"),
      theme.accent,
    );
  }

  private marks(scene: Scene): void {
    const { on } = this;
    for (const [mark, strong] of [
      [scene.hover, false],
      [scene.selected, true],
    ] as const) {
      if (!mark) continue;
      const box = this.markBox(scene, mark);
      if (!box?.shown) continue;
      const grow = strong ? 1.5 : 0.75;
      on.lineWidth = strong ? 2 : 1.25;
      if (strong) {
        on.strokeStyle = scene.theme.ground;
        on.strokeRect(box.x - 3, box.y - 3, box.width + 5, box.height + 6);
      }
      on.strokeStyle = scene.theme.ink;
      on.strokeRect(box.x - grow, box.y - grow, box.width - 1 + 2 * grow, box.height + 2 * grow);
    }
  }

  /** The critical path: along each lane that it is in, and from lane to lane. Where lanes are folded it goes on. */
  private path(scene: Scene, lanes: TimelineLanes): void {
    const { path, layout, theme } = scene;
    if (!path) return;
    const { on } = this;
    const offset = lanes.ranks.find(({ rank }) => rank === path.rank)?.offset ?? 0;
    const edge = layout.scrollTop;
    const line = () => {
      on.beginPath();
      let begun = false;
      for (const { lane, depth, start, end } of path.runs) {
        const row = lane === null ? null : rowAt(layout, path.rank, lane, depth, scene.scroll);
        if (!row) continue;
        const y = Math.max(row.pinned ? 0 : edge, row.top + row.bar - 2);
        const from = this.x(scene, start + offset);
        if (begun) on.lineTo(from, y);
        else on.moveTo(from, y);
        on.lineTo(this.x(scene, end + offset), y);
        begun = true;
      }
    };
    on.lineJoin = "round";
    for (const [colour, wide] of [
      [theme.ground, 5],
      [theme.kinds.waiting ?? theme.accent, 2.5],
    ] as const) {
      on.strokeStyle = colour;
      on.lineWidth = wide;
      line();
      on.stroke();
    }
    on.lineJoin = "miter";
  }

  private arrows(scene: Scene, lanes: TimelineLanes): void {
    if (!scene.arrows.length || !scene.selected) return;
    const { on } = this;
    const offsets = new Map(lanes.ranks.map(({ rank, offset }) => [rank, offset]));
    const own = scene.selected.rank;
    const point = (place: ArrowEnd): { x: number; y: number; height: number } | null => {
      const row = place.lane === null ? null : rowAt(scene.layout, own, place.lane, place.depth, scene.scroll);
      if (!row) return null;
      const y = row.pinned ? row.top : Math.max(scene.layout.scrollTop - row.bar, row.top);
      return { x: this.x(scene, place.time + (offsets.get(own) ?? 0)), y, height: row.bar };
    };
    // Of many, as many as can be told apart, evenly, and lightly.
    const { arrows } = scene;
    const every = Math.max(1, arrows.length / MOST_ARROWS);
    on.globalAlpha = arrows.length > 12 ? 0.45 : 1;
    for (let at = 0; at < arrows.length; at += every)
      this.arrow(scene, arrows[Math.floor(at)] as Arrow, point, arrows.length <= 12);
    on.globalAlpha = 1;
    on.setLineDash([]);
  }

  private arrow(
    scene: Scene,
    arrow: Arrow,
    point: (place: ArrowEnd) => { x: number; y: number; height: number } | null,
    few: boolean,
  ): void {
    const { on } = this;
    const from = point(arrow.start);
    const to = point(arrow.end);
    if (!from || !to) return;
    const down = to.y >= from.y;
    const y0 = down ? from.y + from.height : from.y;
    const y1 = down ? to.y - 1 : to.y + to.height + 1;
    const reach = Math.max(18, Math.min(90, Math.abs(y1 - y0) * 0.55));
    const way = down ? 1 : -1;
    const ahead = Math.max(12, Math.min(120, Math.abs(to.x - from.x) * 0.3)) * Math.sign(to.x - from.x || 1);
    const path = () => {
      on.beginPath();
      on.moveTo(from.x, y0);
      on.bezierCurveTo(
        from.x + ahead * 0.2,
        y0 + way * reach,
        to.x - ahead * 0.2,
        y1 - way * reach,
        to.x,
        y1 - way * 4,
      );
    };
    on.setLineDash([]);
    if (few) {
      on.strokeStyle = scene.theme.ground;
      on.lineWidth = 4;
      path();
      on.stroke();
    }
    on.strokeStyle = arrow.kind === "wait" ? (scene.theme.kinds.waiting ?? scene.theme.ink) : scene.theme.ink;
    on.setLineDash(arrow.kind === "forward_backward" ? [5, 3] : []);
    on.lineWidth = few ? 1.4 : 1;
    path();
    on.stroke();
    on.setLineDash([]);
    on.fillStyle = on.strokeStyle;
    on.beginPath();
    on.moveTo(to.x, y1);
    on.lineTo(to.x - 3.5, y1 - way * 6);
    on.lineTo(to.x + 3.5, y1 - way * 6);
    on.fill();
    on.beginPath();
    on.arc(from.x, y0, 2.2, 0, 7);
    on.fill();
  }

  private measure(scene: Scene, start: number, end: number, at: number): void {
    const { on } = this;
    const { theme, layout } = scene;
    const x0 = this.x(scene, Math.min(start, end));
    const x1 = this.x(scene, Math.max(start, end));
    const y = Math.min(scene.height - 14, layout.scrollTop + 16 + (at % 6) * 24);
    const colour = theme.kinds.waiting ?? theme.ink;
    on.strokeStyle = colour;
    on.fillStyle = colour;
    on.lineWidth = 1;
    on.setLineDash([3, 3]);
    for (const x of [x0, x1]) {
      on.beginPath();
      on.moveTo(Math.round(x) + 0.5, layout.axisTop);
      on.lineTo(Math.round(x) + 0.5, scene.height);
      on.stroke();
    }
    on.setLineDash([]);
    on.lineWidth = 1.5;
    on.beginPath();
    on.moveTo(x0, y);
    on.lineTo(x1, y);
    on.moveTo(x0, y - 5);
    on.lineTo(x0, y + 5);
    on.moveTo(x1, y - 5);
    on.lineTo(x1, y + 5);
    on.stroke();
    this.tag(
      scene,
      (Math.max(x0, layout.gutter) + Math.min(x1, scene.width)) / 2,
      y,
      shown(Math.abs(end - start), "ns"),
      colour,
    );
  }

  /** Words on the ground colour, in the middle of something; kept within the picture. */
  private tag(scene: Scene, x: number, y: number, text: string, colour: string): void {
    const { on } = this;
    on.font = `600 12px ${scene.theme.font}`;
    const wide = on.measureText(text).width + 14;
    const from = Math.min(scene.width - wide - 2, Math.max(scene.layout.gutter + 2, x - wide / 2));
    on.fillStyle = scene.theme.panel;
    on.strokeStyle = colour;
    on.lineWidth = 1;
    on.beginPath();
    on.roundRect(from, y - 10, wide, 20, 4);
    on.fill();
    on.stroke();
    on.fillStyle = scene.theme.ink;
    on.textAlign = "left";
    on.fillText(text, from + 7, y + 0.5);
  }

  private pointer(scene: Scene): void {
    const { pointer, layout, theme, view } = scene;
    if (!pointer || pointer.x < layout.gutter || pointer.y < layout.axisTop) return;
    const { on } = this;
    on.fillStyle = mix(theme.soft, theme.ground, 0.6);
    on.fillRect(Math.round(pointer.x), layout.axisTop + 4, 1, scene.height);
    const time = view.start + ((pointer.x - layout.gutter) / (scene.width - layout.gutter)) * (view.end - view.start);
    on.font = `11px ${theme.font}`;
    const text = instant(time - scene.origin, (view.end - view.start) / (scene.width - layout.gutter));
    const wide = on.measureText(text).width + 10;
    const from = Math.min(scene.width - wide, Math.max(layout.gutter, pointer.x - wide / 2));
    on.fillStyle = theme.soft;
    on.beginPath();
    on.roundRect(from, layout.axisTop + 2, wide, 18, 4);
    on.fill();
    on.fillStyle = theme.ground;
    on.fillText(printable(text), from + 5, layout.axisTop + 11.5);
  }

  /** A pin beside the label beneath the pointer: a click on it keeps the lane in sight. */
  private pin(scene: Scene): void {
    const { pointer, layout, theme } = scene;
    if (!pointer || pointer.x >= layout.gutter || pointer.y < layout.lanesTop) return;
    const spot = spotAt(layout, pointer.y, scene.scroll);
    if (spot?.item.what !== "lane" || spot.item.pinned || spot.item.kind === "steps") return;
    const { on } = this;
    const x = layout.gutter - 14;
    const y = labelTop(layout, spot.item, spot.top, scene.scroll) + Math.min(spot.item.bar, 20) / 2;
    on.strokeStyle = pointer.x > layout.gutter - 22 ? theme.ink : theme.soft;
    on.lineWidth = 1.25;
    on.beginPath();
    on.arc(x, y - 1, 2.5, 0, 7);
    on.moveTo(x, y + 1.5);
    on.lineTo(x, y + 5);
    on.stroke();
  }

  private focus(scene: Scene): void {
    if (!scene.focus) return;
    const { layout, theme } = scene;
    for (const [list, from] of [
      [layout.pinned, layout.lanesTop],
      [layout.scrolled, layout.scrollTop - scene.scroll],
    ] as const) {
      const item = list.find((one) => one.key === scene.focus);
      if (!item) continue;
      const y = from + item.top;
      if (y + item.height < layout.lanesTop || y > scene.height) return;
      this.on.fillStyle = theme.accent;
      this.on.fillRect(0, y, 2, Math.max(14, item.height - 9));
    }
  }
}
