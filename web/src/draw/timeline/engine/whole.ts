/** The run from start to end, with the window in view on it. */

import { shown } from "../../../base/numbers";
import { type Brush, sheet } from "./inks";
import type { TimelineLanes } from "../../../api/answers";
import type { Scene, Theme } from "./types";

/** Kinds in the order in which they are stacked. */
const STACKED = ["computation", "communication", "memory", "waiting", "data_loading", "runtime", "host", "other"];

export class WholeRun {
  private picture: OffscreenCanvas | HTMLCanvasElement | null = null;
  private key = "";
  private of: TimelineLanes | null = null;

  constructor(private readonly on: Brush) {}

  draw(scene: Scene, lanes: TimelineLanes, left: number, width: number): void {
    const { on } = this;
    const { layout, dpr, theme, view, matches } = scene;
    const top = Math.round(layout.minimapTop * dpr);
    const tall = Math.round(layout.minimapHeight * dpr);
    const wide = width - left;
    const key = `${wide} ${tall} ${theme.dark} ${theme.ground}`;
    if (this.key !== key || this.of !== lanes) {
      this.picture = wide > 0 ? wholeRun(lanes, wide, tall, theme, dpr) : null;
      this.key = key;
      this.of = lanes;
    }
    if (this.picture) on.drawImage(this.picture, left, top);
    const all = lanes.end - lanes.start || 1;
    const at = (time: number) => left + ((time - lanes.start) / all) * wide;
    const x0 = Math.max(left, Math.min(width - 2 * dpr, at(view.start)));
    const x1 = Math.min(width, Math.max(x0 + 2 * dpr, at(view.end)));
    on.globalAlpha = theme.dark ? 0.62 : 0.68;
    on.fillStyle = theme.ground;
    on.fillRect(left, top, x0 - left, tall);
    on.fillRect(x1, top, width - x1, tall);
    on.globalAlpha = 1;
    if (matches?.buckets.length) {
      const each = wide / matches.buckets.length;
      on.fillStyle = theme.kinds.waiting ?? theme.accent;
      matches.buckets.forEach((count, bucket) => {
        if (count > 0) on.fillRect(Math.round(left + bucket * each), top, Math.max(2 * dpr, Math.round(each)), 4 * dpr);
      });
    }
    on.strokeStyle = theme.soft;
    on.lineWidth = Math.max(1, Math.round(dpr));
    on.strokeRect(Math.round(x0) + 0.5, top + 0.5, Math.max(1, Math.round(x1 - x0) - 1), tall - 1);
    on.fillStyle = theme.soft;
    for (const x of [x0, x1]) on.fillRect(Math.round(x) - 1.5 * dpr, top + tall / 2 - 6 * dpr, 3 * dpr, 12 * dpr);
    if (left) {
      on.font = `${12 * dpr}px ${theme.font}`;
      on.textAlign = "left";
      on.fillStyle = theme.soft;
      on.fillText(`all ${shown(all, "ns")}`, 4 * dpr, top + tall / 2);
    }
  }
}

/** The run from start to end: what the device did, stacked by kind; idle is white. */
function wholeRun(
  lanes: TimelineLanes,
  wide: number,
  tall: number,
  theme: Theme,
  dpr: number,
): OffscreenCanvas | HTMLCanvasElement | null {
  const canvas = sheet(wide, tall);
  const on = canvas.getContext("2d") as Brush | null;
  if (!on) return null;
  on.fillStyle = theme.panel;
  on.fillRect(0, 0, wide, tall);
  const map = lanes.minimap;
  const all = lanes.end - lanes.start || 1;
  if (map) {
    const names = Object.keys(map.busy).sort((one, other) => STACKED.indexOf(one) - STACKED.indexOf(other));
    const count = Math.max(0, ...names.map((name) => map.busy[name]?.length ?? 0));
    const first = map.start - lanes.start;
    for (let x = 0; x < wide; x++) {
      const from = Math.max(0, Math.floor(((x / wide) * all - first) / map.bucket));
      const to = Math.max(from + 1, Math.ceil((((x + 1) / wide) * all - first) / map.bucket));
      let base = tall;
      for (const name of names) {
        const busy = map.busy[name] ?? [];
        let sum = 0;
        let seen = 0;
        for (let bucket = from; bucket < to && bucket < count; bucket++, seen++) sum += busy[bucket] ?? 0;
        if (!seen || !sum) continue;
        const high = Math.min(base, (sum / seen) * (tall - 3 * dpr));
        on.fillStyle = theme.kinds[name] ?? theme.kinds.other ?? theme.soft;
        on.fillRect(x, base - high, 1, high);
        base -= high;
      }
    }
  }
  on.strokeStyle = theme.line;
  on.lineWidth = Math.max(1, Math.round(dpr));
  on.strokeRect(0.5, 0.5, wide - 1, tall - 1);
  return canvas;
}
