/** What follows what, as one coloured band over time: Ctrl-wheel or + and − zoom, a drag pans, a click leads there. */

import { useRef, useState } from "preact/hooks";
import type { Ribbon } from "../api/blocks";
import { colour, INK, inkOn } from "../base/colour";
import { scale, shown, withUnit } from "../base/numbers";
import { fitted, printable } from "../base/text";
import { hideTip, showTip } from "../base/tip";
import { useProps } from "../base/props";
import { Canvas, pngOf, ZoomTools } from "./canvas";
import { Frame } from "./frame";
import { svgOf, type Pen } from "./pen";
import { SaveMenu } from "./picture";

const BAND = 28;
const LANE = 16;
const AXIS = 20;
const MOST_LANES = 12;

export function RibbonBlock({ title, texts, start, end, name, kind, lane, row, note }: Ribbon) {
  const { dark, follow } = useProps();
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const wide = useRef(1);
  const all: [number, number] = [start[0] ?? 0, end.reduce((most, each) => Math.max(most, each), 1)];
  const [view, setView] = useState<[number, number] | null>(null);
  const [active, setActive] = useState(-1);
  const [from, to] = view ?? all;
  const ink = INK[dark ? "dark" : "light"];
  const lanes = [...new Set(lane)].slice(0, MOST_LANES);
  const height = BAND + 8 + lanes.length * LANE + AXIS;
  const word = (at: number | undefined) => printable(texts[at ?? -1] ?? "");
  const margin = () => (wide.current > 640 ? 120 : 0);
  const x = (ns: number) => margin() + ((ns - from) / (to - from)) * (wide.current - margin());
  const ns = (px: number) => from + ((px - margin()) / (wide.current - margin())) * (to - from);

  const draw = (context: Pen, width: number) => {
    wide.current = width;
    context.font = "12px system-ui, sans-serif";
    if (margin()) {
      context.fillStyle = ink.soft;
      context.fillText("path", 0, BAND / 2);
      lanes.forEach((each, at) =>
        context.fillText(fitted(word(each), margin() - 12, 12), 0, BAND + 8 + at * LANE + LANE / 2),
      );
    }
    context.save();
    context.beginPath();
    context.rect(margin(), 0, width - margin(), height);
    context.clip();
    const thin = new Shares();
    const alone: number[] = [];
    for (let at = firstAfter(end, from); at < start.length && (start[at] as number) < to; at += 1) {
      const [left, right] = [x(start[at] as number), x(end[at] as number)];
      if (right - left >= NARROW) alone.push(at);
      else thin.add(left, right, kind[at] ?? -1, lane[at] ?? -1);
    }
    const fillOf = (of: number) => colour(texts[of] ?? "", dark);
    thin.draw(context, fillOf, 0, BAND);
    lanes.forEach((each, line) => thin.draw(context, fillOf, BAND + 8 + line * LANE + 2, LANE - 4, each));
    for (const at of alone) {
      const [left, right] = [x(start[at] as number), x(end[at] as number)];
      const fill = fillOf(kind[at] ?? -1);
      context.fillStyle = fill;
      const span = right - left - (right - left > 4 ? 1 : 0);
      context.fillRect(left, 0, span, BAND);
      const line = lanes.indexOf(lane[at] as number);
      if (line >= 0) context.fillRect(left, BAND + 8 + line * LANE + 2, span, LANE - 4);
      if (right - left > 40) {
        context.fillStyle = inkOn(fill);
        context.fillText(
          fitted(word(name[at]), Math.min(right, width) - Math.max(left, margin()) - 10, 12),
          Math.max(left, margin()) + 5,
          BAND / 2,
        );
      }
    }
    if (active >= 0) {
      const [left, right] = [x(start[active] ?? 0), x(end[active] ?? 0)];
      context.strokeStyle = ink.ink;
      context.lineWidth = 2;
      context.strokeRect(left, 1, Math.max(2, right - left - 1), BAND - 2);
    }
    context.restore();
    axis(context, width);
  };
  const axis = (context: Pen, width: number) => {
    const unit = scale([to - from], "ns");
    const step = niceStep((to - from) / Math.max(2, (width - margin()) / 110));
    context.fillStyle = ink.soft;
    context.textAlign = "center";
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      context.fillRect(x(at), height - AXIS, 1, 4);
      const label = `${+(at / unit.divisor).toFixed(6)} ${unit.label}`;
      if (x(at) > margin() + 20 && x(at) < width - 24) context.fillText(label, x(at), height - 7);
    }
    context.textAlign = "start";
  };
  const under = (px: number): number => {
    const at = firstAfter(end, ns(px));
    return at < start.length && (start[at] as number) <= ns(px) + ((to - from) / wide.current) * 2 ? at : -1;
  };
  const says = (at: number) => {
    const length = (end[at] as number) - (start[at] as number);
    return `${word(name[at])}\n${shown(length, "ns")} on ${word(lane[at])}\n${word(kind[at]).replaceAll("_", " ")}, at ${withUnit(scale([to], "ns"), start[at])}`;
  };
  const zoom = (by: number, at: number) => {
    const span = Math.min(all[1] - all[0], Math.max(200, (to - from) * by));
    const left = Math.max(all[0], Math.min(all[1] - span, at - ((at - from) / (to - from)) * span));
    setView(span >= all[1] - all[0] ? null : [left, left + span]);
  };
  const pan = (by: number) => {
    const left = Math.max(all[0], Math.min(all[1] - (to - from), from + by));
    setView([left, left + (to - from)]);
  };
  const open = (at: number) =>
    follow({
      view: "timeline",
      time: around(start[at] as number, end[at] as number),
      ...((row[at] ?? -1) >= 0 ? { row: row[at] as number } : {}),
    });
  const step = (to: number) => {
    const at = Math.max(0, Math.min(start.length - 1, to));
    setActive(at);
    if ((start[at] as number) < from || (end[at] as number) > (view ?? all)[1])
      pan((start[at] as number) - from - ((view ?? all)[1] - from) / 3);
  };
  const keys: Record<string, () => void> = {
    ArrowRight: () => step(active + 1),
    ArrowLeft: () => step(active - 1),
    "+": () => zoom(0.5, (from + to) / 2),
    "=": () => zoom(0.5, (from + to) / 2),
    "-": () => zoom(2, (from + to) / 2),
    "0": () => setView(null),
    Enter: () => active >= 0 && open(active),
  };
  return (
    <Frame
      title={title}
      note={note}
      name="ribbon"
      tools={
        <>
          <ZoomTools
            zoom={(closer) => zoom(closer ? 0.5 : 2, (from + to) / 2)}
            all={view ? () => setView(null) : undefined}
          />
          <SaveMenu
            name={title}
            svg={async () => svgOf(draw, wide.current, height, ink.bg)}
            png={() => pngOf(canvas.current, ink.bg)}
          />
        </>
      }
    >
      <Canvas
        canvas={canvas}
        height={height}
        label={`${title}: arrows move along, plus and minus zoom, Enter shows it on the timeline`}
        draw={draw}
        on={{
          move: (px, _py, event) => {
            if (event.buttons & 1) return pan(-(event.movementX / (wide.current - margin())) * (to - from));
            const at = px >= margin() ? under(px) : -1;
            if (at >= 0) showTip(event.clientX, event.clientY, says(at));
            else hideTip();
          },
          leave: hideTip,
          click: (px, _py, event) => {
            const at = px >= margin() ? under(px) : -1;
            if (at >= 0 && event.detail === 1 && at === active) open(at);
            else setActive(at);
          },
          wheel: (px, event) => {
            if (!event.ctrlKey && !event.metaKey) return;
            event.preventDefault();
            zoom(Math.exp(event.deltaY * 0.004), ns(px));
          },
          key: (event) => {
            const what = keys[event.key];
            if (!what) return;
            what();
            event.preventDefault();
            event.stopPropagation();
          },
        }}
      />
      <p class="note ribbon-said">
        {active >= 0 ? (
          <>
            {says(active).replaceAll("\n", " · ")}{" "}
            <button class="link" onClick={() => open(active)}>
              show on timeline
            </button>
          </>
        ) : (
          "A click chooses a segment, a second one shows it on the timeline."
        )}
      </p>
    </Frame>
  );
}

/** What is narrower is drawn with its neighbours: a column of pixels shows how they share it. */
const NARROW = 1.5;

/** Segments too narrow to be seen alone, by the columns of pixels in which they lie. */
class Shares {
  private readonly columns = new Map<number, Map<string, [kind: number, lane: number, width: number]>>();

  add(left: number, right: number, kind: number, lane: number): void {
    for (let at = Math.floor(left); at < right; at += 1) {
      const width = Math.min(right, at + 1) - Math.max(left, at);
      let column = this.columns.get(at);
      if (!column) this.columns.set(at, (column = new Map()));
      const key = `${kind} ${lane}`;
      column.set(key, [kind, lane, (column.get(key)?.[2] ?? 0) + width]);
    }
  }

  /** Each column as high as `height`, divided as its segments share it; or as the kinds of one lane do. */
  draw(context: Pen, fill: (kind: number) => string, top: number, height: number, lane?: number): void {
    for (const [at, column] of this.columns) {
      const here = [...column.values()].filter((each) => lane === undefined || each[1] === lane);
      const kinds = new Map<number, number>();
      for (const [kind, , width] of here) kinds.set(kind, (kinds.get(kind) ?? 0) + width);
      const whole = [...kinds.values()].reduce((sum, width) => sum + width, 0);
      let y = top;
      for (const [kind, width] of [...kinds].sort(([a], [b]) => a - b)) {
        const tall = (width / whole) * height;
        context.fillStyle = fill(kind);
        context.fillRect(at, y, 1, tall);
        y += tall;
      }
    }
  }
}

const around = (start: number, end: number): readonly [number, number] => {
  const pad = Math.max(2000, (end - start) * 0.5);
  return [Math.max(0, start - pad), end + pad];
};

/** The first place whose value is greater than `value`; `sorted` ascends. */
function firstAfter(sorted: readonly number[], value: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least) ?? 10 * power;
}
