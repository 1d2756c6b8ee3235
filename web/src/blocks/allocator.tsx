/**
 * The memory of a device as its allocator recorded it: bands by category, and below them the segments at an instant. A
 * drag selects a stretch of time, a click or a drag along the ruler chooses the instant; Ctrl-wheel or + and − zoom.
 */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Allocator, Moment } from "../api/blocks";
import { runPath } from "../api/client";
import { useNewest } from "../api/newest";
import { colour, INK } from "../base/colour";
import { grouped, instant, scale, shown } from "../base/numbers";
import { useProps } from "../base/props";
import { timeRangeOf, timeRangeText } from "../base/ranges";
import { printable } from "../base/text";
import { hideTip, showTip } from "../base/tip";
import {
  BOTTOM,
  drawBands,
  eventOf,
  highest,
  LEFT,
  levelOf,
  placeOf,
  reservedOf,
  RIGHT,
  rowAt,
  rowOf,
  TOP,
  total,
  type Stretch,
} from "../draw/memory/bands";
import { HeapPicture } from "./heap";
import type { MemoryBands, MemoryHeap } from "../api/answers";
import { Canvas, pngOf, ZoomTools } from "./canvas";
import { Frame } from "./frame";
import { svgOf, type Pen } from "./pen";
import { SaveMenu } from "./picture";

/** Rows of a picture, and pieces of a heap; a report keeps answers to the same questions (server/report.py). */
const [COLUMNS, PIECES] = [1500, 20_000];
const KEPT_PIECES = 2000;
/** Lower on a low screen, so that the segments are in sight while the instant is moved. */
const HEIGHT = Math.round(Math.max(170, Math.min(250, innerHeight / 4)));
const DRAGGED = 4;
const SETTLED = 90;
const CLOSEST = { time: 1000, event: 20 };

export function AllocatorBlock(block: Allocator) {
  const { title, note, device, events, span, categories, moments, steps, kept } = block;
  const { run, version, select, state, api, dark, go } = useProps();
  const by =
    span && state.tables["memory.by"] === "time" ? "time" : span && !state.tables["memory.by"] ? block.by : "event";
  const [window, setWindow] = useState<Stretch | null>(null);
  const chosen = Number(state.tables["memory.at"] ?? NaN);
  const [at, setAt] = useState<number>(Number.isInteger(chosen) ? chosen : (moments[0]?.event ?? events - 1));
  const [alone, setAlone] = useState(-1);
  const [brush, setBrush] = useState<[number, number] | null>(null);
  const [hover, setHover] = useState(-1);
  const press = useRef<{ x: number; scrubs: boolean; moved: boolean } | null>(null);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const wide = useRef(1000);
  const drawn = useRef<{ key: string; picture: HTMLCanvasElement | null }>({ key: "", picture: null });
  const whole: Stretch =
    by === "time" && span ? { from: span[0], to: span[1] + 1 } : { from: 0, to: Math.max(1, events) };
  const view = window ?? whole;
  const settled = useSettled(window);
  const who = { rank: select.rank, cycle: select.cycle, device };
  const path = (what: string) => runPath(run, "memory", what);
  const all = useNewest<MemoryBands>(path("bands"), { ...who, by, columns: COLUMNS }, version);
  const near = settled && !api.embedded ? widened(settled, whole) : null;
  const fine = useNewest<MemoryBands>(path("bands"), near && { ...who, by, columns: 2 * COLUMNS, ...near }, version);
  const asked = api.embedded ? nearest(kept, at) : at;
  const pieces = api.embedded ? KEPT_PIECES : PIECES;
  const heap = useNewest<MemoryHeap>(path("heap"), { ...who, event: asked, pieces }, version);
  const names = all?.categories ?? [];
  const order = useMemo(
    () => categories.map(([name]) => names.indexOf(name)).filter((each) => each >= 0),
    [names.join()],
  );
  const fills = useMemo(() => names.map((name) => colour(name, dark)), [names.join(), dark]);
  const drawnOnes = alone >= 0 ? [alone] : order;
  const most = useMemo(() => (all ? highest(all.rows, alone) * 1.04 : 1), [all, alone]);
  const covers = (data: MemoryBands | undefined): data is MemoryBands =>
    !!data && data.by === by && data.start <= view.from && data.end >= view.to;
  const data = window && covers(fine) ? fine : all?.by === by ? all : undefined;
  const ink = INK[dark ? "dark" : "light"];

  useEffect(() => setAt(Number.isInteger(chosen) ? chosen : (moments[0]?.event ?? events - 1)), [moments[0]?.event]);
  const remember = useRef(0);
  const choose = (event: number) => {
    const to = Math.max(-1, Math.min(events - 1, event));
    setAt(to);
    clearTimeout(remember.current);
    remember.current = globalThis.setTimeout(
      () => go({ tables: { "memory.at": String(to) } }, { replace: true }),
      400,
    ) as unknown as number;
  };

  const broad = () => Math.max(1, wide.current - LEFT - RIGHT);
  const x = (place: number) => LEFT + ((place - view.from) / (view.to - view.from || 1)) * broad();
  const place = (px: number) => view.from + ((px - LEFT) / broad()) * (view.to - view.from);
  const placeOfEvent = (event: number): number => {
    if (by === "event") return event;
    if (heap && heap.event === event && heap.time !== null) return heap.time;
    const known = [...moments, ...steps].find((each) => each.event === event);
    return known?.time ?? placeOf((data ?? all)?.rows[rowOf((data ?? all)?.rows ?? [], event)]);
  };
  const rowUnder = (px: number) => (data ? rowAt(data.rows, place(px)) : -1);
  const scrub = (px: number) => {
    if (!data) return;
    if (by === "event" && (view.to - view.from) / broad() < 1) return choose(Math.round(place(px)));
    choose(eventOf(data.rows[rowUnder(Math.max(LEFT, Math.min(wide.current, px)))]));
  };
  const zoom = (factor: number, px = x(placeOfEvent(at))) => {
    const center = px < LEFT || px > wide.current ? (view.from + view.to) / 2 : place(px);
    const length = Math.max(CLOSEST[by], (view.to - view.from) * factor);
    setWindow(inside(whole, center - ((center - view.from) / (view.to - view.from)) * length, length));
  };
  const pan = (by: number) => setWindow(inside(whole, view.from + by, view.to - view.from));

  const draw = (pen: Pen, width: number) => {
    wide.current = width;
    const look = { width, height: HEIGHT, view, most, dark, order: drawnOnes, fills, whole: alone < 0 };
    if (!data) return;
    if (!("drawImage" in pen)) return drawBands(pen, data, look);
    // The bands are painted once; what moves with the pointer stands above them.
    const ratio = devicePixelRatio || 1;
    const key = JSON.stringify([by, data.start, data.end, data.rows.length, width, view, dark, alone, most, ratio]);
    if (drawn.current.key !== key) {
      const picture = document.createElement("canvas");
      [picture.width, picture.height] = [Math.round(width * ratio), Math.round(HEIGHT * ratio)];
      const context = picture.getContext("2d");
      if (!context) return;
      context.scale(ratio, ratio);
      context.textBaseline = "middle";
      drawBands(context, data, look);
      drawn.current = { key, picture };
    }
    if (drawn.current.picture) (pen as CanvasRenderingContext2D).drawImage(drawn.current.picture, 0, 0, width, HEIGHT);
    ruler(pen);
  };
  const ruler = (pen: Pen) => {
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, broad(), HEIGHT);
    pen.clip();
    pen.fillStyle = ink.line;
    pen.fillRect(LEFT, 4, broad(), TOP - 8);
    pen.fillStyle = ink.soft;
    pen.font = "11px system-ui, sans-serif";
    let taken = -1e9;
    for (const step of steps) {
      const left = x(placeOfMoment(step, by));
      if (left < LEFT - 60 || left > wide.current) continue;
      pen.globalAlpha = 0.5;
      pen.fillRect(left, 4, 1, TOP - 8);
      pen.globalAlpha = 1;
      if (left - taken > 8 * step.label.length + 12) {
        pen.fillText(printable(step.label), left + 4, TOP / 2);
        taken = left;
      }
    }
    const select = selection ? ([x(selection[0]), x(selection[1])] as const) : null;
    for (const [ends, strength] of [
      [select, 0.1],
      [brush, 0.16],
    ] as const) {
      if (!ends) continue;
      const [low, high] = [Math.min(...ends), Math.max(...ends)];
      pen.globalAlpha = strength;
      pen.fillStyle = ink.accent;
      pen.fillRect(low, TOP, high - low, HEIGHT - TOP - BOTTOM);
      pen.globalAlpha = 1;
      pen.fillRect(low, TOP, 1, HEIGHT - TOP - BOTTOM);
      pen.fillRect(high, TOP, 1, HEIGHT - TOP - BOTTOM);
    }
    const now = x(placeOfEvent(asked));
    if (hover >= 0 && Math.abs(hover - now) > 2) {
      pen.globalAlpha = 0.4;
      pen.fillStyle = ink.ink;
      pen.fillRect(hover, TOP, 1, HEIGHT - TOP - BOTTOM);
      pen.globalAlpha = 1;
    }
    pen.fillStyle = ink.accent;
    pen.fillRect(now - 1, 2, 2, HEIGHT - BOTTOM - 2);
    pen.beginPath();
    pen.arc(now, TOP / 2, 6, 0, 2 * Math.PI);
    pen.fill();
    pen.restore();
  };
  const ranged = timeRangeOf(select.time);
  const selection = ranged && (by === "time" ? ranged : eventsOf(all, ranged));

  const says = (row: number) => {
    const found = data?.rows[row];
    if (!data || !found) return "";
    const when =
      by === "time" ? instant(scale([view.to], "ns"), placeOf(found)) + ` ${scale([view.to], "ns").label}` : "";
    const lines = [...order].reverse().filter((each) => levelOf(found, each) > 0);
    return [
      [when, eventOf(found) >= 0 ? `event ${grouped(eventOf(found))}` : "before the first event"]
        .filter(Boolean)
        .join(", "),
      `${shown(total(found), "bytes")} asked for, ${shown(reservedOf(found), "bytes")} reserved`,
      ...lines.map((each) => `${names[each]}: ${shown(levelOf(found, each), "bytes")}`),
    ].join("\n");
  };
  const finish = (px: number) => {
    const begin = press.current;
    press.current = null;
    setBrush(null);
    if (!begin || begin.scrubs) return;
    if (!begin.moved) return scrub(px);
    const [from, to] = [Math.min(begin.x, px), Math.max(begin.x, px)].map((each) => place(Math.max(LEFT, each))) as [
      number,
      number,
    ];
    // A report has the tables of all; there a stretch is looked at.
    if (api.embedded) return setWindow(inside(whole, from, Math.max(CLOSEST[by], to - from)));
    const times = by === "time" ? [from, to] : all ? timesOf(all, from, to) : null;
    if (!times || !span) return;
    const time = timeRangeText(Math.max(0, times[0] as number), times[1] as number);
    go({ select: { time }, tables: { "memory.at": null } });
  };
  const step = (direction: number) => {
    const sorted = steps.map((each) => each.event);
    const next = direction > 0 ? sorted.find((each) => each > at) : [...sorted].reverse().find((each) => each < at);
    if (next !== undefined) choose(next);
  };
  const keys: Record<string, (event: KeyboardEvent) => void> = {
    ArrowRight: (event) => choose(at + (event.shiftKey ? 100 : 1)),
    ArrowLeft: (event) => choose(at - (event.shiftKey ? 100 : 1)),
    Home: () => choose(-1),
    End: () => choose(events - 1),
    "[": () => step(-1),
    "]": () => step(1),
    p: () => choose(moments[0]?.event ?? at),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    "0": () => setWindow(null),
    a: () => pan((view.from - view.to) / 5),
    d: () => pan((view.to - view.from) / 5),
    Escape: () => select.time && go({ select: { time: null } }),
  };
  // The same element is not drawn again while only the pointer moves.
  const segments = useMemo(
    () => heap && <HeapPicture heap={heap} who={who} fills={fills} names={names} alone={alone} />,
    [heap, fills, names.join(), alone, JSON.stringify(who)],
  );
  return (
    <Frame
      title={title}
      note={note}
      name="allocator"
      tools={
        <>
          {span && (
            <span class="segments small" role="group" aria-label="Along the axis">
              {(["time", "event"] as const).map((each) => (
                <button
                  key={each}
                  aria-pressed={each === by}
                  onClick={() => {
                    setWindow(null);
                    go({ tables: { "memory.by": each } }, { replace: true });
                  }}
                >
                  {each === "time" ? "Time" : "Events"}
                </button>
              ))}
            </span>
          )}
          <ZoomTools zoom={(closer) => zoom(closer ? 0.5 : 2)} all={window ? () => setWindow(null) : undefined} />
          <SaveMenu
            name={title}
            svg={async () => svgOf(draw, wide.current, HEIGHT, ink.bg)}
            png={() => pngOf(canvas.current, ink.bg)}
          />
        </>
      }
    >
      <div class="bands" data-drawn={data ? data.rows.length : 0}>
        <Canvas
          canvas={canvas}
          height={HEIGHT}
          label={`${title}: arrows lead from event to event, [ and ] from step to step, P to the peak, plus and minus zoom`}
          draw={draw}
          on={{
            down: (px, py, event) => {
              if (event.button || event.ctrlKey) return;
              press.current = { x: px, scrubs: py < TOP, moved: false };
              canvas.current?.setPointerCapture(event.pointerId);
              hideTip();
              if (py < TOP) scrub(px);
            },
            up: (px) => finish(px),
            move: (px, py, event) => {
              const begin = press.current;
              if (begin?.scrubs) return scrub(px);
              if (begin) {
                begin.moved ||= Math.abs(px - begin.x) > DRAGGED;
                if (begin.moved) setBrush([begin.x, Math.max(LEFT, Math.min(wide.current, px))]);
                return;
              }
              const inside = px >= LEFT && py >= TOP && py < HEIGHT - BOTTOM;
              if (canvas.current) canvas.current.style.cursor = py < TOP ? "ew-resize" : inside ? "crosshair" : "";
              setHover(inside ? px : -1);
              if (inside) showTip(event.clientX, event.clientY, says(rowUnder(px)));
              else hideTip();
            },
            leave: () => {
              hideTip();
              setHover(-1);
            },
            wheel: (px, event) => {
              if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY * 0.004), px);
              else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
                pan((((event.deltaX || event.deltaY) / broad()) * (view.to - view.from)) as number);
              else return;
              event.preventDefault();
            },
            key: (event) => {
              const what = keys[event.key];
              if (!what || event.ctrlKey || event.metaKey) return;
              what(event);
              event.preventDefault();
              event.stopPropagation();
            },
          }}
        />
      </div>
      <div class="moments">
        {moments.map((each) => (
          <button key={each.label} class="tool" aria-pressed={each.event === at} onClick={() => choose(each.event)}>
            {printable(each.label)}
          </button>
        ))}
        {select.time && (
          <button class="tool" onClick={() => go({ select: { time: null } })}>
            Clear the selection
          </button>
        )}
      </div>
      <p class="said" role="status">
        {heap ? printable(heap.sentence) : "…"}
      </p>
      <ul class="key" aria-label="Bytes asked for by category">
        {order.map((each) => (
          <li key={each}>
            <button
              class="link"
              aria-pressed={alone === each}
              data-tip={categories.find(([name]) => name === names[each])?.[1]}
              onClick={() => setAlone(alone === each ? -1 : each)}
            >
              <i style={{ background: fills[each] }} />
              {names[each]}
              <b>{shown(heap?.bytes[names[each] ?? ""] ?? 0, "bytes")}</b>
            </button>
          </li>
        ))}
        <li>
          <i class="line" />
          reserved
        </li>
      </ul>
      {segments}
    </Frame>
  );
}

const placeOfMoment = (moment: Moment, by: "time" | "event"): number =>
  by === "event" || moment.time === null ? moment.event : moment.time;

/** What rests for a while; null as soon as everything is in view. */
function useSettled(window: Stretch | null): Stretch | null {
  const [settled, set] = useState<Stretch | null>(null);
  useEffect(() => {
    const timer = setTimeout(() => set(window), SETTLED);
    return () => clearTimeout(timer);
  }, [window?.from, window?.to]);
  return window && settled;
}

/** Half as much again on either side, so that a short way is there already; whole numbers. */
const widened = ({ from, to }: Stretch, whole: Stretch): { from: number; to: number } => ({
  from: Math.max(whole.from, Math.floor(from - (to - from) / 2)),
  to: Math.min(whole.to, Math.ceil(to + (to - from) / 2)),
});

/** A stretch of a length inside of all there is; null where that is all. */
function inside(whole: Stretch, from: number, length: number): Stretch | null {
  if (length >= whole.to - whole.from) return null;
  const begin = Math.max(whole.from, Math.min(whole.to - length, from));
  return { from: begin, to: begin + length };
}

const nearest = (kept: readonly number[], event: number): number =>
  kept.reduce((best, each) => (Math.abs(each - event) < Math.abs(best - event) ? each : best), kept[0] ?? event);

/** Events in a range of time, as far as rows by event tell; null without times. */
function eventsOf(data: MemoryBands | undefined, [from, to]: readonly [number, number]): [number, number] | null {
  const times = data?.times;
  if (!data || !times) return null;
  const at = (time: number) => times.findIndex((each) => each >= time);
  const [first, last] = [at(from), at(to)];
  return [placeOf(data.rows[Math.max(0, first)]), last < 0 ? data.end : placeOf(data.rows[last])];
}

/** When events are, as far as rows by event tell; null without times. */
function timesOf(data: MemoryBands, from: number, to: number): [number, number] | null {
  const times = data.times;
  if (!times) return null;
  return [times[rowAt(data.rows, from)] ?? 0, times[Math.min(times.length - 1, rowAt(data.rows, to) + 1)] ?? 0];
}
