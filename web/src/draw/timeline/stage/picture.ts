/** The picture as the page and the gestures know it: what it tells, and what can be asked and changed of it. */

import type { TimelineLanes, TimelineStep } from "../../../api/answers";
import type { Chosen } from "../engine/area";
import type { Arrangement, Flipped } from "../engine/arrange";
import type { Spot } from "../engine/layout";
import type { Flag, Item, Layout, Mark, Scene, Span, Wanted } from "../engine/types";

export interface Told {
  /** The window came to rest. */
  readonly settled: (view: Span) => void;
  /** The window moves, in each frame. */
  readonly moved?: (view: Span) => void;
  readonly hover: (mark: Mark | null, x: number, y: number, spot: Spot | null) => void;
  readonly select: (mark: Mark | null) => void;
  /** A range of time, in some lanes or in all. */
  readonly range: (range: Span | null, lanes: Chosen) => void;
  /** A range begins to be drawn: what its table needs can be got ready. */
  readonly begun?: () => void;
  /** A box was drawn to zoom to. */
  readonly zoomed: (view: Span) => void;
  readonly measures: (measures: Span[]) => void;
  /** A note was clicked. */
  readonly note?: (id: string) => void;
  /** Lanes are arranged anew; `followed`: because a mark in them was gone to. */
  readonly arrange: (how: Arrangement, followed?: boolean) => void;
  /** The marks that the arrow keys came to. */
  readonly reach: (mark: Mark | null, lane: string) => void;
  readonly trouble: (failed: string) => void;
  readonly height: (height: number) => void;
  readonly tile: (wanted: Wanted) => Promise<ArrayBuffer>;
}

/** What gestures move. */
export interface Picture {
  readonly root: HTMLElement;
  readonly told: Told;
  readonly lanes: TimelineLanes | null;
  readonly how: Arrangement;
  readonly at: Layout | null;
  readonly width: number;
  readonly height: number;
  /** The window that is gone to, and how far lanes are scrolled, now and then. */
  readonly target: Span;
  readonly scroll: number;
  readonly scrollTarget: number;
  readonly range: Span | null;
  readonly area: Chosen;
  /** Keys that are held down. */
  readonly held: Set<string>;
  pointer: { x: number; y: number } | null;
  hover: Mark | null;
  cursor: Mark | null;
  focus: string;
  /** ms that the gestures of a frame took. */
  spent: number;
  put(part: Partial<Scene>): void;
  move(view: Span, at_once?: boolean): void;
  fit(span: Span | null): void;
  scrollTo(to: number, at_once?: boolean): void;
  scrolled(to: number): number;
  arrange(how: Arrangement): void;
  toggle(item: Item, what: Flipped): void;
  setRange(range: Span | null, area?: Chosen): void;
  /** Finds the mark under the pointer anew. */
  seek(): void;
  /** The instant at a place of the lanes; in another window; on the map of the whole. */
  time(x: number): number;
  timeIn(view: Span, x: number): number;
  whole(x: number): number;
  markAt(spot: Spot, x: number): Promise<Mark | null>;
  noteAt(x: number, y: number): Flag | null;
  stepAt(item: Item, x: number): TimelineStep | null;
  hasSlices(item: Item): boolean;
}
