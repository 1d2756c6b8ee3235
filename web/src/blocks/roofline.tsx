/**
 * Points below the roofs of a device, both axes logarithmic. A drag pans, Ctrl-wheel or + and − zoom; arrows lead from
 * the point that takes longest to the next; Enter or a second click picks it for what stands below.
 */

import { useMemo, useRef, useState } from "preact/hooks";
import type { Roofline } from "../api/blocks";
import { colour, INK } from "../base/colour";
import { grouped, scale, shown, significant } from "../base/numbers";
import { measured, printable } from "../base/text";
import { hideTip, showTip } from "../base/tip";
import { useProps } from "../base/props";
import { logsOf, powers, scaled, ticked, within, type Powers } from "../draw/powers";
import { Canvas, pngOf, ZoomTools } from "./canvas";
import { Frame } from "./frame";
import { PartKey, share } from "./parts";
import { svgOf, type Pen } from "./pen";
import { SaveMenu } from "./picture";

const [LEFT, RIGHT, TOP, BOTTOM] = [106, 12, 16, 40];
const [LOWEST, TALLEST] = [320, 460];
/** Of the picture, under all circles together: points hide less of each other, and less is to be painted. */
const COVERED = 0.07;
const LARGEST = 26;
const SMALLEST = 1.6;
/** Smaller ones are squares: nobody sees the difference, and squares are painted ten times as fast. */
const ROUND = 3;
const DIMMED = 0.12;
const NEAR = 8;
const DRAGGED = 4;

export function RooflineBlock(block: Roofline) {
  const { title, parts, note, texts, kind, roofs, lane, picks, chosen } = block;
  const { dark, go, follow, api } = useProps();
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const ring = useRef<HTMLDivElement | null>(null);
  const wide = useRef(1);
  const dragged = useRef(0);
  const logs = useMemo(() => ({ x: logsOf(block.at), y: logsOf(block.over) }), [block.at, block.over]);
  const whole: Powers = { x: [Math.log10(lane), Math.log10(block.x[1])], y: logsOf(block.y) as [number, number] };
  const [window, setWindow] = useState<Powers | null>(null);
  const [active, setActive] = useState(-1);
  const { x: ofX, y: ofY } = window ?? whole;
  const ink = INK[dark ? "dark" : "light"];
  const height = Math.max(LOWEST, Math.min(TALLEST, Math.round(innerHeight / 2)));
  const [tall, broad] = [height - TOP - BOTTOM, () => Math.max(1, wide.current - LEFT - RIGHT)];
  const px = (log: number) => LEFT + ((log - ofX[0]) / (ofX[1] - ofX[0])) * broad();
  const py = (log: number) => TOP + (1 - (log - ofY[0]) / (ofY[1] - ofY[0])) * tall;
  const time = block.time;
  const size = useMemo(
    () => ({ sum: time.reduce((sum, each) => sum + each, 0), most: Math.max(...time.slice(0, 1), 1) }),
    [time],
  );
  const radius = (at: number) => {
    const area = Math.min((COVERED * broad() * tall) / size.sum, (Math.PI * LARGEST ** 2) / size.most);
    return Math.max(SMALLEST, Math.sqrt((area * (time[at] ?? 0)) / Math.PI));
  };
  const named = (at: number) => texts[block.name[at] ?? -1] ?? "";
  const place = chosen ? texts.indexOf(chosen) : -1;
  const fills = useMemo(() => texts.map((text) => colour(text, dark)), [texts, dark]);

  const draw = (pen: Pen, width: number) => {
    wide.current = width;
    pen.font = "12px system-ui, sans-serif";
    grid(pen, width);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, broad(), TOP + tall);
    pen.clip();
    let fill = "";
    for (let at = 0; at < time.length; at += 1) {
      const [x, y, r] = [px(logs.x[at] as number), py(logs.y[at] as number), radius(at)];
      if (x < LEFT - r || x > width - RIGHT + r || y < -r || y > TOP + tall + r) continue;
      const of = fills[kind[at] as number] as string;
      if (of !== fill) pen.fillStyle = pen.strokeStyle = fill = of;
      const dim = place >= 0 && block.name[at] !== place;
      pen.globalAlpha = dim ? DIMMED : 0.5;
      if (r < ROUND) pen.fillRect(x - r, y - r, 2 * r, 2 * r);
      else {
        pen.beginPath();
        pen.arc(x, y, r, 0, 2 * Math.PI);
        pen.fill();
        if (dim) continue;
        pen.globalAlpha = 1;
        pen.lineWidth = 1;
        pen.stroke();
      }
    }
    pen.globalAlpha = 1;
    limits(pen, width);
    if (active >= 0) {
      pen.strokeStyle = ink.ink;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(px(logs.x[active] as number), py(logs.y[active] as number), radius(active) + 3, 0, 2 * Math.PI);
      pen.stroke();
    }
    pen.restore();
  };
  const grid = (pen: Pen, width: number) => {
    const line = (x: number, y: number, w: number, h: number) => {
      pen.fillStyle = ink.line;
      pen.fillRect(x, y, w, h);
      pen.fillStyle = ink.soft;
    };
    const edge = Math.max(LEFT, px(Math.log10(block.x[0])));
    pen.textAlign = "right";
    for (const power of powers(ofY, tall / 36)) {
      line(LEFT, py(power), width - LEFT - RIGHT, 1);
      pen.fillText(ticked(power, scale([10 ** power], "flop/s")), LEFT - 8, py(power));
    }
    pen.textAlign = "center";
    for (const power of powers(ofX, broad() / 64)) {
      if (px(power) < edge - 1) continue;
      line(px(power), TOP, 1, tall);
      // At the ends it would stand on the words of the lane, or be cut off.
      pen.textAlign = px(power) < edge + 8 ? "start" : px(power) > width - RIGHT - 16 ? "end" : "center";
      pen.fillText(ticked(power), px(power), height - BOTTOM + 14);
    }
    pen.textAlign = "center";
    if (lane < block.x[0] && edge > LEFT) {
      line(edge - 1, TOP, 3, tall);
      if (edge - LEFT > 80) pen.fillText("no arithmetic", (LEFT + edge) / 2, height - BOTTOM + 14);
    }
    pen.fillText("FLOP per byte of traffic", (edge + width - RIGHT) / 2, height - 8);
    pen.textAlign = "start";
  };
  const limits = (pen: Pen, width: number) => {
    const taken: [number, number, number][] = [];
    for (const [label, xs, ys, isMeasured] of roofs) {
      const ends = [0, 1].map((at) => [px(Math.log10(xs[at] as number)), py(Math.log10(ys[at] as number))]) as Ends;
      pen.strokeStyle = isMeasured ? ink.soft : ink.ink;
      pen.lineWidth = isMeasured ? 0.75 : 1.25;
      pen.beginPath();
      pen.moveTo(...ends[0]);
      pen.lineTo(...ends[1]);
      pen.stroke();
      const level = ends[0][1] === ends[1][1];
      const right = Math.min(ends[1][0], width - RIGHT);
      const long = measured(label, 12);
      const start = Math.max(ends[0][0], LEFT) + broad() * 0.16;
      // Below the slope stand the words of what was measured, above it those of the datasheet.
      const x = level ? right - 6 : isMeasured ? start + long + 12 : start;
      let y = level ? ends[0][1] - 9 : onLine(ends, start) + (isMeasured ? 10 : -12);
      while (taken.some(([at, by, w]) => Math.abs(by - y) < 14 && Math.abs(at - x) < w)) y += 22;
      if (level && right - Math.max(LEFT, ends[0][0]) < 40) continue;
      taken.push([x, y, long]);
      pen.globalAlpha = 0.75;
      pen.fillStyle = ink.bg;
      pen.fillRect(x - long - 3, y - 7, long + 6, 14);
      pen.globalAlpha = 1;
      pen.fillStyle = isMeasured ? ink.soft : ink.ink;
      pen.textAlign = "right";
      pen.fillText(printable(label), x, y);
      pen.textAlign = "start";
    }
  };

  const under = (x: number, y: number): number => {
    if (x < LEFT || y > TOP + tall) return -1;
    let [best, nearest] = [-1, NEAR];
    for (let at = time.length - 1; at >= 0; at -= 1) {
      const [dx, dy] = [px(logs.x[at] as number) - x, py(logs.y[at] as number) - y];
      if (Math.abs(dx) > LARGEST || Math.abs(dy) > LARGEST) continue;
      const away = Math.hypot(dx, dy) - radius(at);
      if (away < nearest) [best, nearest] = [at, Math.max(away, 0)];
      if (away <= 0) return at; // the smallest whose circle it is in: they are drawn from the largest
    }
    return best;
  };
  const says = (at: number) => {
    const per = block.intensity[at];
    const bound = parts.find((part) => part.kind === texts[kind[at] ?? -1])?.label.toLowerCase() ?? "";
    const rate = [
      per ? `${shown(block.rate[at], "flop/s")} at ${significant(per)} FLOP/B` : "no arithmetic",
      shown(block.bandwidth[at], "bytes/s"),
    ];
    const limit =
      block.efficiency[at] == null
        ? "limit not known"
        : `${shown(block.efficiency[at], "fraction")} of its limit, ${bound}: headroom ${shown(block.headroom[at], "ns")}`;
    return [
      printable(named(at)),
      printable(texts[block.detail[at] ?? -1] ?? ""),
      `${shown(time[at], "ns")} in ${grouped(block.calls[at] ?? 0)} call${block.calls[at] === 1 ? "" : "s"}, ${share((time[at] ?? 0) / size.sum)} of all`,
      rate.join(", "),
      limit,
    ]
      .filter(Boolean)
      .join("\n");
  };
  const zoom = (by: number, x = LEFT + broad() / 2, y = TOP + tall / 2) =>
    setWindow(
      within(whole, {
        x: scaled(ofX, by, (x - LEFT) / broad()),
        y: scaled(ofY, by, 1 - (y - TOP) / tall),
      }),
    );
  const pan = (dx: number, dy: number) => {
    const [x, y] = [(-dx / broad()) * (ofX[1] - ofX[0]), (dy / tall) * (ofY[1] - ofY[0])];
    setWindow(within(whole, { x: [ofX[0] + x, ofX[1] + x], y: [ofY[0] + y, ofY[1] + y] }));
  };
  const step = (to: number) => {
    const at = Math.max(0, Math.min(time.length - 1, to));
    setActive(at);
    const [x, y] = [px(logs.x[at] as number), py(logs.y[at] as number)];
    if (x < LEFT || x > wide.current - RIGHT || y < TOP || y > TOP + tall)
      pan(LEFT + broad() / 2 - x, TOP + tall / 2 - y);
  };
  const pick = (at: number) =>
    picks && !api.embedded && go({ params: { [picks]: named(at) === chosen ? "" : named(at) } });
  const keys: Record<string, () => void> = {
    ArrowRight: () => step(active + 1),
    ArrowLeft: () => step(active - 1),
    Home: () => step(0),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    "0": () => setWindow(null),
    Enter: () => active >= 0 && pick(active),
    Escape: () => setActive(-1),
  };
  const mark = (at: number) => {
    const element = ring.current;
    if (!element) return;
    element.hidden = at < 0;
    const r = at < 0 ? 0 : radius(at) + 2;
    element.style.cssText =
      at < 0
        ? ""
        : `width:${2 * r}px;height:${2 * r}px;transform:translate(${px(logs.x[at] as number) - r}px,${py(logs.y[at] as number) - r}px)`;
  };
  return (
    <Frame
      title={title}
      note={note}
      name="roofline"
      tools={
        <>
          <ZoomTools zoom={(closer) => zoom(closer ? 0.5 : 2)} all={window ? () => setWindow(null) : undefined} />
          <SaveMenu
            name={title}
            svg={async () => svgOf(draw, wide.current, height, ink.bg)}
            png={() => pngOf(canvas.current, ink.bg)}
          />
        </>
      }
    >
      <div class="under-ring">
        <Canvas
          canvas={canvas}
          height={height}
          label={`${title}: arrows lead from point to point, plus and minus zoom, Enter shows the calls of one`}
          draw={draw}
          on={{
            move: (x, y, event) => {
              if (event.buttons & 1) {
                dragged.current += Math.abs(event.movementX) + Math.abs(event.movementY);
                hideTip();
                mark(-1);
                return pan(event.movementX, event.movementY);
              }
              dragged.current = 0;
              const at = under(x, y);
              mark(at);
              if (at >= 0) showTip(event.clientX, event.clientY, says(at));
              else hideTip();
            },
            leave: () => {
              hideTip();
              mark(-1);
            },
            click: (x, y) => {
              if (dragged.current > DRAGGED) return;
              const at = under(x, y);
              if (at >= 0 && at === active) pick(at);
              else setActive(at);
            },
            wheel: (x, event) => {
              if (!event.ctrlKey && !event.metaKey) return;
              event.preventDefault();
              zoom(Math.exp(event.deltaY * 0.004), x, event.offsetY);
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
        <div class="ring" ref={ring} hidden />
      </div>
      <PartKey parts={parts} unit="ns" whole={size.sum} />
      <p class="note ribbon-said" role="status">
        {active >= 0 ? (
          <>
            {says(active).replaceAll("\n", " · ")}{" "}
            {picks && !api.embedded && (
              <button class="link" onClick={() => pick(active)}>
                {named(active) === chosen ? "show all" : "show its calls"}
              </button>
            )}{" "}
            <button class="link" onClick={() => follow({ view: "timeline", params: { q: named(active) } })}>
              search the timeline
            </button>
          </>
        ) : (
          "Area is time; the distance below a roof is headroom. A click chooses a point."
        )}
      </p>
    </Frame>
  );
}

type Ends = [[number, number], [number, number]];

const onLine = ([[x0, y0], [x1, y1]]: Ends, x: number): number => y0 + ((x - x0) / (x1 - x0 || 1)) * (y1 - y0);
