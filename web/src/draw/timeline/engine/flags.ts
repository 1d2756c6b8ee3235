/** Notes above the lanes: a tag in a strip of its own, a line through the lanes, a mark on the map of the run. */

import type { Brush } from "./inks";
import { inkOn } from "./inks";
import { printable } from "../../../base/text";
import type { Flag, Layout, Scene, Span } from "./types";

/** Height of the strip, where there are notes. */
export const STRIP = 20;
const LETTER = 6.4;
const PAD = 12;
const WIDEST = 180;
const NARROWEST = 9;

export interface FlagBox {
  readonly flag: Flag;
  /** Of the tag. */
  readonly x: number;
  readonly width: number;
  /** Where the range begins and ends; equal for an instant. */
  readonly from: number;
  readonly to: number;
}

/** Where the tags stand: as wide as their words, if the next one leaves room. Flags come by start. */
export function flagBoxes(flags: readonly Flag[], view: Span, gutter: number, width: number): FlagBox[] {
  const scale = (width - gutter) / (view.end - view.start);
  const at = (time: number) => gutter + (time - view.start) * scale;
  const seen = flags.filter(({ start, end }) => at(end) >= gutter && at(start) <= width);
  return seen.map((flag, place) => {
    const [from, to] = [at(flag.start), at(flag.end)];
    const x = Math.max(gutter, from);
    const next = seen[place + 1];
    const room = next ? Math.max(gutter, at(next.start)) - x - 2 : width - x;
    const words = Math.min(WIDEST, firstLine(flag.text).length * LETTER + PAD);
    return { flag, x, width: Math.max(NARROWEST, Math.min(words, room)), from, to };
  });
}

export const firstLine = (text: string): string => printable(text.trim().split("\n", 1)[0] ?? "").slice(0, 80);

/** The flag whose tag is at a place of the canvas; of tags over one another the last. */
export function flagAt(
  flags: readonly Flag[],
  view: Span,
  at: Layout,
  width: number,
  x: number,
  y: number,
): Flag | null {
  if (!at.notesHeight || y < at.notesTop || y >= at.notesTop + at.notesHeight) return null;
  const boxes = flagBoxes(flags, view, at.gutter, width);
  return (
    boxes.findLast((box) => x >= box.x - 2 && x <= Math.max(box.x + box.width, Math.min(box.to, width)))?.flag ?? null
  );
}

/** On the map of the whole run. */
export function drawOnMap(on: Brush, scene: Scene, whole: Span): void {
  const { layout, width } = scene;
  const scale = (width - layout.gutter) / Math.max(1, whole.end - whole.start);
  for (const { start, end, colour } of scene.notes) {
    const from = layout.gutter + (start - whole.start) * scale;
    on.fillStyle = colour;
    on.fillRect(from - 1, layout.minimapTop + layout.minimapHeight - 5, Math.max(3, (end - start) * scale), 5);
  }
}

/** Tags and lines; the canvas is clipped to what is right of the labels. */
export function drawFlags(on: Brush, scene: Scene, fit: (text: string, room: number) => string): void {
  const { layout, width, view, theme } = scene;
  const top = layout.notesTop;
  for (const { flag, x, width: wide, from, to } of flagBoxes(scene.notes, view, layout.gutter, width)) {
    on.fillStyle = flag.colour;
    if (to > from) {
      on.globalAlpha = flag.current ? 0.16 : 0.08;
      on.fillRect(from, top, to - from, scene.height - top);
    }
    on.globalAlpha = flag.current ? 1 : 0.6;
    for (const line of to > from ? [from, to] : [from]) on.fillRect(Math.round(line) - 0.5, top, 1, scene.height - top);
    on.globalAlpha = 1;
    if (to > from) on.fillRect(from, top + STRIP - 4, to - from, 2);
    on.beginPath();
    on.roundRect(x, top + 1, wide, STRIP - 5, 3);
    on.fill();
    if (flag.current) {
      on.strokeStyle = theme.ink;
      on.lineWidth = 1.5;
      on.stroke();
    }
    on.font = `11px ${theme.font}`;
    on.fillStyle = inkOn(flag.colour);
    on.fillText(fit(firstLine(flag.text), wide - 8), x + 5, top + 1 + (STRIP - 5) / 2);
  }
}
