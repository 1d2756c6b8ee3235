/**
 * A tree as nested rectangles, roots above (callers: below). A click makes a node as wide as the picture; Backspace
 * leads back; a search marks names and says what share of the time they have. Beside another run, colour is change.
 */

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Icicle } from "../api/blocks";
import { blended, colour, INK, inkOn } from "../base/colour";
import { grouped, shown, signed } from "../base/numbers";
import { fitted, measured, printable } from "../base/text";
import { hideTip, showTip } from "../base/tip";
import { useProps } from "../base/props";
import { Canvas, pngOf } from "./canvas";
import { Frame } from "./frame";
import { svgOf, type Pen } from "./pen";
import { share } from "./parts";
import { SaveMenu } from "./picture";

const ROW = 22;
const DEEPEST = 80;
/** Of what is in view: a row of narrower ones alone is not drawn. */
const NARROWEST = 1500;
const DIMMED = 0.25;

interface Tree {
  readonly whole: number;
  readonly start: Float64Array;
  readonly depth: Int32Array;
  /** Nodes of each depth, from left to right. */
  readonly levels: readonly number[][];
  readonly children: readonly number[][];
}

export function IcicleBlock(block: Icicle) {
  const {
    title,
    name,
    parent,
    value,
    kind,
    detail,
    alike,
    other,
    wide: width,
    unit,
    note,
    short,
    picks,
    upward,
  } = block;
  const { dark, api, go } = useProps();
  const tree = useMemo(() => planted(parent, value), [parent, value]);
  const [root, setRoot] = useState(-1);
  const [active, setActive] = useState(-1);
  const [search, setSearch] = useState("");
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const tall = useRef<HTMLDivElement | null>(null);
  const wide = useRef(1);
  const zoomed = root >= 0 && root < name.length ? root : -1;
  const from = zoomed < 0 ? 0 : (tree.start[zoomed] ?? 0);
  const span = Math.max(1e-9, zoomed < 0 ? tree.whole : (value[zoomed] ?? 0));
  const path = pathOf(zoomed, parent);
  const ink = INK[dark ? "dark" : "light"];
  const seen = (node: number) => {
    const start = tree.start[node] ?? 0;
    return start < from + span && start + (value[node] ?? 0) > from && (value[node] ?? 0) >= span / NARROWEST;
  };
  const empty = tree.levels.findIndex((nodes) => !nodes.some(seen));
  const rows = Math.min(DEEPEST, empty < 0 ? tree.levels.length : empty);
  const height = Math.max(1, rows) * ROW;
  const x = (at: number, width: number) => ((at - from) / span) * width;
  const top = (depth: number) => (upward ? rows - 1 - depth : depth) * ROW;
  useLayoutEffect(() => {
    if (upward && tall.current) tall.current.scrollTop = tall.current.scrollHeight;
  }, [height]);
  const called = (node: number) => {
    const full = name[node] ?? "";
    const own = short[full] ?? printable(full);
    return (alike[node] ?? 1) > 1 ? `${grouped(alike[node] as number)} × ${own}` : own;
  };
  const hits = useMemo(() => matched(search, name, parent, value), [search, name, parent, value]);
  const change = (node: number) => ((value[node] ?? 0) - (other[node] ?? 0)) * (width === "now" ? 1 : -1);
  const largest = useMemo(() => value.reduce((most, _, node) => Math.max(most, Math.abs(change(node))), 0), [value]);
  const fillOf = (node: number) => {
    if (!other.length) return colour(kind[node] ?? "", dark);
    const strength = Math.sqrt(Math.abs(change(node)) / (largest || 1));
    return blended(colour("idle", dark), colour(change(node) > 0 ? "worse" : "better", dark), strength);
  };

  const draw = (context: Pen, width: number) => {
    wide.current = width;
    tree.levels.slice(0, rows).forEach((nodes, depth) => {
      let drawnTo = -1;
      for (const node of nodes) {
        const left = Math.max(0, x(tree.start[node] ?? 0, width));
        const right = Math.min(width, x((tree.start[node] ?? 0) + (value[node] ?? 0), width));
        if (right <= 0 || left >= width || right - Math.max(left, drawnTo) < 0.4) continue;
        const above = path.includes(node) && node !== zoomed;
        const fill = fillOf(node);
        const dim = hits && !hits.is[node];
        context.globalAlpha = dim ? DIMMED : above ? 0.45 : depth % 2 && !other.length ? 0.86 : 1;
        context.fillStyle = fill;
        const gap = right - left > 3 ? 1 : 0;
        context.fillRect(left, top(depth), Math.max(0.5, right - left - gap), ROW - 1);
        drawnTo = right;
        context.globalAlpha = 1;
        if (right - left > 36) {
          context.font = "12px system-ui, sans-serif";
          context.fillStyle = above || dim ? ink.ink : inkOn(fill);
          const room = right - left - 12;
          const by = other.length && room > 150 ? `  ${signed(change(node), unit)}` : "";
          const text = fitted(called(node), room - (by ? measured(by, 12) : 0), 12) + by;
          context.fillText(text, left + 6, top(depth) + ROW / 2);
        }
        if (node === active) {
          context.strokeStyle = ink.ink;
          context.lineWidth = 2;
          context.strokeRect(left + 1, top(depth) + 1, Math.max(1, right - left - 2), ROW - 3);
        }
      }
    });
  };
  const under = (px: number, py: number): number => {
    const at = from + (px / wide.current) * span;
    const row = Math.floor(py / ROW);
    const nodes = tree.levels[upward ? rows - 1 - row : row] ?? [];
    return (
      nodes.find((node) => at >= (tree.start[node] ?? 0) && at < (tree.start[node] ?? 0) + (value[node] ?? 0)) ?? -1
    );
  };
  const says = (node: number) => {
    const [now, before] = width === "now" ? [value[node], other[node]] : [other[node], value[node]];
    const beside = other.length
      ? `\n${shown(before, unit)} before, ${shown(now, unit)} now: ${signed(change(node), unit)}`
      : "";
    const full = name[node] && short[name[node]] ? `\n${printable(name[node])}` : "";
    const more = detail[node] ? `\n${printable(detail[node])}` : "";
    return `${called(node)}\n${shown(value[node], unit)}, ${share((value[node] ?? 0) / (tree.whole || 1))} of all${beside}${more}${full}`;
  };
  const zoom = (node: number) => setRoot(node === zoomed ? (parent[node] ?? -1) : node);
  const pick = (node: number) => go({ params: { [picks]: name[node] ?? "" } });
  const siblings =
    active < 0
      ? []
      : (parent[active] ?? -1) < 0
        ? (tree.levels[0] ?? [])
        : (tree.children[parent[active] as number] ?? []);
  const key = (event: KeyboardEvent) => {
    const inner = () => (active < 0 ? tree.levels[0]?.[0] : tree.children[active]?.[0]);
    const outer = () => ((parent[active] ?? -1) >= 0 ? parent[active] : active);
    const next: Record<string, () => number | undefined> = {
      ArrowDown: upward ? outer : inner,
      ArrowUp: upward ? inner : outer,
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
  const about = active >= 0 ? active : zoomed;
  return (
    <Frame
      title={title}
      note={note}
      name="icicle"
      tools={
        <>
          {hits && (
            <span class="found" role="status">
              {hits.count ? `${share(hits.time / (tree.whole || 1))} in ${grouped(hits.count)} places` : "not here"}
            </span>
          )}
          <input
            type="search"
            class="search"
            placeholder="Search names"
            aria-label={`Search names in ${title}`}
            value={search}
            onInput={(event) => setSearch(event.currentTarget.value)}
            onKeyDown={(event) => event.key === "Enter" && hits && hits.widest >= 0 && setRoot(hits.widest)}
          />
          <SaveMenu
            name={title}
            svg={async () => svgOf(draw, wide.current, height, ink.bg)}
            png={() => pngOf(canvas.current, ink.bg)}
          />
        </>
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
              {called(node)}
            </button>
          </>
        ))}
        {picks && !api.embedded && about >= 0 && (
          <button class="link pick" onClick={() => pick(about)}>
            Callers and callees
          </button>
        )}
        {active >= 0 && (
          <span class="sr" role="status">
            {says(active)}
          </span>
        )}
      </div>
      {other.length > 0 && <Legend dark={dark} most={shown(largest, unit)} />}
      <div class="tall" ref={tall} tabIndex={-1}>
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
      </div>
      {active >= 0 && <p class="note">{says(active).replaceAll("\n", " · ")}</p>}
    </Frame>
  );
}

/** What the colours of a difference mean. */
function Legend({ dark, most }: { dark: boolean; most: string }) {
  const [none, less, more] = ["idle", "better", "worse"].map((kind) => colour(kind, dark));
  return (
    <p class="scale-key">
      <span>−{most}</span>
      <i style={{ background: `linear-gradient(to right, ${less}, ${none}, ${more})` }} />
      <span>+{most} in a mean step</span>
    </p>
  );
}

interface Hits {
  readonly is: readonly boolean[];
  readonly count: number;
  /** Time in them and all inside, each instant once. */
  readonly time: number;
  readonly widest: number;
}

/** The nodes whose name holds the words; null where nothing is searched. */
function matched(
  search: string,
  name: readonly string[],
  parent: readonly number[],
  value: readonly number[],
): Hits | null {
  const wanted = search.trim().toLowerCase();
  if (!wanted) return null;
  const is = name.map((each) => each.toLowerCase().includes(wanted));
  const inside: boolean[] = [];
  let [count, time, widest] = [0, 0, -1];
  is.forEach((hit, node) => {
    const around = !!inside[parent[node] ?? -1];
    inside.push(around || hit);
    if (!hit) return;
    count += 1;
    if (!around) time += value[node] ?? 0;
    if (widest < 0 || (value[node] ?? 0) > (value[widest] ?? 0)) widest = node;
  });
  return { is, count, time, widest };
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
  return { whole, start, depth, levels, children };
}

/** A node and those above it. */
function pathOf(node: number, parent: readonly number[]): number[] {
  const found: number[] = [];
  for (let at = node; at >= 0 && found.length < 10_000; at = parent[at] ?? -1) found.push(at);
  return found;
}
