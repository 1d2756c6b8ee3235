/** The segments of an allocator at an instant, blocks in the colour of their category; a click shows a block's stack. */

import { useMemo, useRef, useState } from "preact/hooks";
import type { MemoryAllocation, MemoryHeap } from "../api/answers";
import { runPath } from "../api/client";
import { useNewest } from "../api/newest";
import type { Query } from "../api/transport";
import { INK } from "../base/colour";
import { grouped, shown } from "../base/numbers";
import { useProps } from "../base/props";
import { printable } from "../base/text";
import { hideTip, showTip } from "../base/tip";
import { arranged, drawHeap, fittedInto, rowUnder } from "../draw/memory/segments";
import { Canvas, pngOf, ZoomTools } from "./canvas";
import { svgOf, type Pen } from "./pen";
import { SaveMenu, useWidth } from "./picture";

const HEIGHT = 300;
const CLOSEST = 512;

interface Props {
  readonly heap: MemoryHeap;
  readonly who: Query;
  readonly fills: readonly string[];
  readonly names: readonly string[];
  readonly alone: number;
}

export function HeapPicture({ heap, who, fills, names, alone }: Props) {
  const { run, version, api, dark } = useProps();
  const [measure, width] = useWidth<HTMLDivElement>();
  const [closer, setCloser] = useState(1);
  const [top, setTop] = useState(0);
  const [allocation, setAllocation] = useState(-1);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const box = useRef<HTMLDivElement | null>(null);
  const ink = INK[dark ? "dark" : "light"];
  const fit = useMemo(() => (width ? fittedInto(heap, width - 14, HEIGHT) : null), [heap.segments, width]);
  const layout = useMemo(
    () => fit && (closer > 1 ? arranged(heap, width - 14, Math.max(CLOSEST, fit.perPx / closer)) : fit),
    [fit, closer],
  );
  const details = useNewest<MemoryAllocation>(
    runPath(run, "memory", "allocation"),
    allocation >= 0 ? { ...who, row: allocation } : null,
    version,
  );
  const draw = (pen: Pen, wide: number) =>
    layout && drawHeap(pen, heap, layout, { width: wide - 14, top, height: HEIGHT, dark, fills, alone, allocation });
  const zoom = (factor: number, y = HEIGHT / 2) => {
    if (!layout || !fit) return;
    const next = Math.max(1, Math.min(fit.perPx / CLOSEST, closer * factor));
    const share = (top + y) / layout.height;
    setCloser(next);
    // The lines under the pointer stay there, once they are laid out anew.
    requestAnimationFrame(() => {
      const element = box.current;
      if (element) element.scrollTop = share * (element.scrollHeight - 1) - y;
    });
  };
  const says = (row: number) => {
    const found = heap.rows[row];
    if (!found) return "";
    const [segment, , size, requested, category, , count, waits] = found;
    const whole = heap.segments.size[segment] ?? 0;
    const within = `in a segment of ${shown(whole, "bytes")} at ${heap.segments.address[segment]}`;
    if (category < 0) return `Free: ${shown(size, "bytes")}\n${within}`;
    const many = count > 1 ? `${grouped(count)} blocks, ` : "";
    const lost = size > requested ? `, ${shown(requested, "bytes")} asked for` : "";
    return `${names[category]}: ${many}${shown(size, "bytes")}${lost}\n${waits ? "its return waits for another stream\n" : ""}${within}`;
  };
  const under = (px: number, py: number) => (layout ? rowUnder(heap, layout, px, py + top) : -1);
  return (
    <div class="heap">
      <div class="block-head">
        <h3>Segments and holes at this instant</h3>
        <div class="tools">
          <ZoomTools
            zoom={(larger) => zoom(larger ? 2 : 0.5)}
            all={closer > 1 ? () => setCloser(1) : undefined}
            words={["Larger", "Smaller"]}
          />
          <SaveMenu
            name="segments"
            svg={async () => svgOf(draw, width, HEIGHT, ink.bg)}
            png={() => pngOf(canvas.current, ink.bg)}
          />
        </div>
      </div>
      <div
        class="heap-scroll"
        ref={(element) => {
          box.current = element;
          measure(element);
        }}
        style={{ height: `${Math.min(HEIGHT, layout?.height ?? HEIGHT) + 2}px` }}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
        tabIndex={-1}
      >
        <div style={{ height: `${layout?.height ?? 0}px` }}>
          <div class="heap-sticky">
            <Canvas
              canvas={canvas}
              height={HEIGHT}
              label="Segments: plus and minus zoom, a click shows who asked for a block"
              draw={draw}
              on={{
                move: (px, py, event) => {
                  const row = under(px, py);
                  if (canvas.current) canvas.current.style.cursor = (heap.rows[row]?.[4] ?? -1) >= 0 ? "pointer" : "";
                  if (row >= 0) showTip(event.clientX, event.clientY, says(row));
                  else hideTip();
                },
                leave: hideTip,
                click: (px, py) => setAllocation(heap.rows[under(px, py)]?.[5] ?? -1),
                wheel: (_, event) => {
                  if (!event.ctrlKey && !event.metaKey) return;
                  event.preventDefault();
                  zoom(Math.exp(-event.deltaY * 0.004), event.offsetY);
                },
                key: (event) => {
                  if (event.key === "+" || event.key === "=") zoom(2);
                  else if (event.key === "-") zoom(0.5);
                  else if (event.key === "0") setCloser(1);
                  else if (event.key === "Escape") setAllocation(-1);
                  else return;
                  event.preventDefault();
                  event.stopPropagation();
                },
              }}
            />
          </div>
        </div>
      </div>
      {allocation >= 0 && details?.row === allocation && (
        <div class="allocation" role="status">
          <p>
            <b>{printable(details.category)}</b>: {details.facts.map(printable).join(" · ")}
          </p>
          {details.frames.length ? (
            <ol>
              {details.frames.map((frame, place) => (
                <li key={place} class={frame.user ? "user" : ""}>
                  <span>{printable(frame.name)}</span>
                  <span class="soft">
                    {printable(frame.file)}
                    {frame.line > 0 && `:${frame.line}`}
                  </span>
                </li>
              ))}
            </ol>
          ) : (
            <p class="note">Its stack was not recorded.</p>
          )}
        </div>
      )}
      {allocation >= 0 && !details && api.embedded && <p class="note">This report does not keep its stack.</p>}
    </div>
  );
}
