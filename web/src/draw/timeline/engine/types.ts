/** What the timeline is made of: the server's answers, the view's state, and what the page and its painter say to each other. */

import type { Arrow, TimelineGroup, PathRun, QueryMarks, TimelineLanes } from "../../../api/answers";
import type { Colouring } from "./hues";

export type GroupKind = TimelineGroup["kind"];

/** The lanes of some ranks, and of a query among them. */
export interface DrawnLanes extends TimelineLanes {
  readonly query?: readonly QueryMarks[];
}

/** A stretch of time in ns after the first event of the trace (of the first rank, where there are several). */
export interface Span {
  start: number;
  end: number;
}

/** A note as it is drawn: in the time of the picture. */
export interface Flag extends Span {
  readonly id: string;
  readonly text: string;
  readonly colour: string;
  readonly current: boolean;
}

/** A mark under the pointer, or the neighbour of one: times are as displayed. */
export interface Mark extends Span {
  rank: number;
  lane: string;
  depth: number;
  row: number;
  /** Events merged in it: 1 for a true one. */
  count: number;
  kind: string;
  /** "" if the tile does not say. */
  name: string;
  /** A start or end that lies beyond the tiles at hand is not exact. */
  cut: boolean;
  /** Of a counter: its mean and greatest level there. */
  level?: { mean: number; max: number; unit: string };
}

/** Of a lane in view: the depths that hold something, and the first one at which calls follow one another. */
export interface InView {
  rank: number;
  lane: string;
  depths: number[];
  branch: number;
}

/** Colours by what they mean, read from the page's tokens. */
export interface Theme {
  dark: boolean;
  ground: string;
  panel: string;
  ink: string;
  soft: string;
  line: string;
  accent: string;
  font: string;
  kinds: Record<string, string>;
}

/** One line of the picture: a header of a rank or group, or a lane. `top` is within its part (pinned or scrolled). */
export interface Item {
  key: string;
  /** The key of what its label folds and unfolds. */
  toggles: string;
  what: "rank" | "group" | "lane";
  kind: GroupKind | "rank";
  rank: number;
  offset: number;
  lane: string;
  title: string;
  top: number;
  height: number;
  /** Where marks begin, beneath a label that stands above them. */
  inset: number;
  rows: number;
  /** The depths to be seen, of which the first `rows` are: those that hold nothing in view have no row. */
  depths: readonly number[];
  pitch: number;
  bar: number;
  hidden: number;
  folded: boolean;
  foldable: boolean;
  pinned: boolean;
  indent: number;
  unit: string;
  max: number;
  colour: string;
  /** What is said beside the title. */
  note: string;
  /** There is no room for its title. */
  quiet: boolean;
  /** Of a rank: lanes that are drawn over one another in one line, and which row of the first of them. */
  line: { lanes: readonly string[]; depth: number } | null;
}

export interface Layout {
  pinned: Item[];
  scrolled: Item[];
  pinnedHeight: number;
  height: number;
  gutter: number;
  /** Tops of the parts within the canvas. */
  minimapTop: number;
  minimapHeight: number;
  axisTop: number;
  axisHeight: number;
  /** The strip of the notes; of no height without any. */
  notesTop: number;
  notesHeight: number;
  lanesTop: number;
  scrollTop: number;
}

/** What is drawn; each part is sent when it changes. */
export interface Scene {
  width: number;
  height: number;
  dpr: number;
  theme: Theme;
  layout: Layout;
  view: Span;
  scroll: number;
  colouring: Colouring;
  /** ns after the first event that the ruler counts from. */
  origin: number;
  hover: Mark | null;
  pointer: { x: number; y: number } | null;
  selected: Mark | null;
  arrows: readonly Arrow[];
  range: Span | null;
  /** Keys of the lanes that the range is of; null: all. */
  area: readonly string[] | null;
  /** What is to be zoomed to, while it is drawn. */
  box: (Span & { top: number; bottom: number }) | null;
  measures: Span[];
  notes: readonly Flag[];
  /** The line of the critical path, in the picture's time. */
  path: { readonly rank: number; readonly runs: readonly PathRun[] } | null;
  /** The item that the keyboard is on. */
  focus: string;
  /** Where a dragged lane would come to stand, px from the top. */
  drop: number | null;
  matches: { codes: readonly number[]; rows: readonly number[] | null; buckets: readonly number[] } | null;
}

/** Marks and counters come apart: counters take the server longer. Of a folded rank only its line is wanted. */
export type Share = "marks" | "counters" | "line";

export interface Wanted {
  rank: number;
  share: Share;
  z: number;
  i: number;
}

export type Side = "next" | "previous" | "up" | "down";

export type ToPainter =
  | {
      say: "open";
      base: OffscreenCanvas | HTMLCanvasElement;
      over: OffscreenCanvas | HTMLCanvasElement;
      tiles: string | null;
    }
  | { say: "lanes"; lanes: DrawnLanes }
  | { say: "scene"; scene: Partial<Scene> }
  | {
      say: "hit";
      id: number;
      rank: number;
      lane: string;
      depth: number;
      time: number;
      slack: number;
      /** In the line of the rank, whichever lane it is of. */
      strip: "upper" | "lower" | null;
    }
  | { say: "beside"; id: number; mark: Mark; side: "next" | "previous" }
  | { say: "tile"; key: string; bytes: ArrayBuffer | null; error: string }
  | { say: "picture"; id: number }
  | { say: "look" }
  | { say: "close" };

export type FromPainter =
  | { say: "answer"; id: number; mark: Mark | null }
  | { say: "drawn"; ms: number; tiles: number; waiting: number; bytes: number; failed: string }
  | { say: "need"; key: string; wanted: Wanted }
  | { say: "drop"; key: string }
  | { say: "used"; view: Span; lanes: InView[] }
  | { say: "picture"; id: number; blob: Blob | null };
