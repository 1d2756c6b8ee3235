/** A tree as nested rectangles, roots above. A click makes a node as wide as the picture; Backspace leads back. */

import { useMemo, useRef, useState } from "preact/hooks";
import type { Icicle } from "../api/blocks";
import { colour, INK, inkOn } from "../base/colour";
import { shown } from "../base/numbers";
import { fitted, printable } from "../base/text";
import { hideTip, showTip } from "../base/tip";
import { useProps } from "../base/props";
import { Canvas, pngOf } from "./canvas";
import { Frame } from "./frame";
import { svgOf, type Pen } from "./pen";
import { share } from "./parts";
import { SaveMenu } from "./picture";

const ROW = 22;
const DEEPEST = 24;

interface Tree {
  readonly whole: number;
  readonly start: Float64Array;
  readonly depth: Int32Array;
  readonly deepest: number;
  /** Nodes of each depth, from left to right. */
  readonly levels: readonly number[][];
  readonly children: readonly number[][];
}

export function IcicleBlock({ title, name, parent, value, kind, detail, unit, note }: Icicle) {
  const { dark } = useProps();
  const tree = useMemo(() => planted(parent, value), [parent, value]);
  const [root, setRoot] = useState(-1);
  const [active, setActive] = useState(-1);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const wide = useRef(1);
  const zoomed = root >= 0 && root < name.length ? root : -1;
  const from = zoomed < 0 ? 0 : (tree.start[zoomed] ?? 0);
  const span = Math.max(1e-9, zoomed < 0 ? tree.whole : (value[zoomed] ?? 0));
  const path = pathOf(zoomed, parent);
  const ink = INK[dark ? "dark" : "light"];
  const rows = Math.min(DEEPEST, tree.deepest + 1);
  const height = Math.max(1, rows) * ROW;
  const x = (at: number, width: number) => ((at - from) / span) * width;

  const draw = (context: Pen, width: number) => {
    wide.current = width;
    tree.levels.slice(0, rows).forEach((nodes, depth) => {
      let drawnTo = -1;
      for (const node of nodes) {
        const left = Math.max(0, x(tree.start[node] ?? 0, width));
        const right = Math.min(width, x((tree.start[node] ?? 0) + (value[node] ?? 0), width));
        if (right <= 0 || left >= width || right - Math.max(left, drawnTo) < 0.4) continue;
        const fill = colour(kind[node] ?? "", dark);
        context.globalAlpha = path.includes(node) && node !== zoomed ? 0.45 : depth % 2 ? 0.86 : 1;
        context.fillStyle = fill;
        const gap = right - left > 3 ? 1 : 0;
        context.fillRect(left, depth * ROW, Math.max(0.5, right - left - gap), ROW - 1);
        drawnTo = right;
        context.globalAlpha = 1;
        if (right - left > 36) {
          context.font = "12px system-ui, sans-serif";
          context.fillStyle = path.includes(node) && node !== zoomed ? ink.ink : inkOn(fill);
          context.fillText(fitted(printable(name[node] ?? ""), right - left - 12, 12), left + 6, depth * ROW + ROW / 2);
        }
        if (node === active) {
          context.strokeStyle = ink.ink;
          context.lineWidth = 2;
          context.strokeRect(left + 1, depth * ROW + 1, Math.max(1, right - left - 2), ROW - 3);
        }
      }
    });
  };
  const under = (px: number, py: number): number => {
    const at = from + (px / wide.current) * span;
    const nodes = tree.levels[Math.floor(py / ROW)] ?? [];
    return (
      nodes.find((node) => at >= (tree.start[node] ?? 0) && at < (tree.start[node] ?? 0) + (value[node] ?? 0)) ?? -1
    );
  };
  const says = (node: number) =>
    `${printable(name[node] ?? "")}\n${shown(value[node], unit)}, ${share((value[node] ?? 0) / (tree.whole || 1))} of all${detail[node] ? `\n${printable(detail[node])}` : ""}`;
  const zoom = (node: number) => setRoot(node === zoomed ? (parent[node] ?? -1) : node);
  const siblings =
    active < 0
      ? []
      : (parent[active] ?? -1) < 0
        ? (tree.levels[0] ?? [])
        : (tree.children[parent[active] as number] ?? []);
  const key = (event: KeyboardEvent) => {
    const next: Record<string, () => number | undefined> = {
      ArrowDown: () => (active < 0 ? tree.levels[0]?.[0] : tree.children[active]?.[0]),
      ArrowUp: () => ((parent[active] ?? -1) >= 0 ? parent[active] : active),
      ArrowLeft: () => siblings[siblings.indexOf(active) - 1],
      ArrowRight: () => siblings[siblings.indexOf(active) + 1],
    };
    if (event.key in next) setActive(next[event.key]?.() ?? active);
    else if (event.key === "Enter" && active >= 0) zoom(active);
    else if (event.key === "Backspace" || (event.key === "Escape" && zoomed >= 0))
      setRoot(zoomed < 0 ? -1 : (parent[zoomed] ?? -1));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <Frame
      title={title}
      note={note}
      name="icicle"
      tools={
        <SaveMenu
          name={title}
          svg={async () => svgOf(draw, wide.current, height, ink.bg)}
          png={() => pngOf(canvas.current, ink.bg)}
        />
      }
    >
      <div class="crumbs" role="navigation" aria-label="Place in the tree">
        <button class="link" disabled={zoomed < 0} onClick={() => setRoot(-1)}>
          all
        </button>
        {[...path].reverse().map((node) => (
          <>
            {" › "}
            <button class="link" disabled={node === zoomed} onClick={() => setRoot(node)}>
              {printable(name[node] ?? "")}
            </button>
          </>
        ))}
        {active >= 0 && (
          <span class="sr" role="status">
            {says(active)}
          </span>
        )}
      </div>
      <Canvas
        canvas={canvas}
        height={height}
        label={`${title}: arrows move, Enter zooms, Backspace leads back`}
        draw={draw}
        on={{
          move: (px, py, event) => {
            const node = under(px, py);
            if (node >= 0) showTip(event.clientX, event.clientY, says(node));
            else hideTip();
            if (canvas.current) canvas.current.style.cursor = node >= 0 ? "zoom-in" : "";
          },
          leave: hideTip,
          click: (px, py) => {
            const node = under(px, py);
            if (node >= 0) zoom(node);
            hideTip();
          },
          key,
        }}
      />
      {active >= 0 && <p class="note">{says(active).replaceAll("\n", " · ")}</p>}
    </Frame>
  );
}

/** Where each node begins: after its elder siblings, which stand from the largest. */
function planted(parent: readonly number[], value: readonly number[]): Tree {
  const count = parent.length;
  const start = new Float64Array(count);
  const depth = new Int32Array(count);
  const children: number[][] = Array.from({ length: count }, () => []);
  const roots: number[] = [];
  parent.forEach((of, node) => (of < 0 ? roots : (children[of] ?? roots)).push(node));
  const levels: number[][] = [];
  let whole = 0;
  const larger = (a: number, b: number) => (value[b] ?? 0) - (value[a] ?? 0) || a - b;
  const place = (nodes: number[], from: number, level: number) => {
    let at = from;
    for (const node of nodes.sort(larger)) {
      start[node] = at;
      depth[node] = level;
      at += value[node] ?? 0;
    }
    return at;
  };
  whole = place(roots, 0, 0);
  for (let level: number[] = roots, at = 0; level.length; at += 1) {
    levels.push(level);
    const next: number[] = [];
    for (const node of level) {
      place(children[node] as number[], start[node] as number, at + 1);
      next.push(...(children[node] as number[]));
    }
    level = next;
  }
  return { whole, start, depth, deepest: levels.length - 1, levels, children };
}

/** A node and those above it. */
function pathOf(node: number, parent: readonly number[]): number[] {
  const found: number[] = [];
  for (let at = node; at >= 0 && found.length < 10_000; at = parent[at] ?? -1) found.push(at);
  return found;
}
