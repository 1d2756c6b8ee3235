/** What the timeline is made of: the server's answers, the view's state, and what the page and its painter say to each other. */

import type { Colouring } from "./hues";
import type { Flag } from "./notes";

/** `extra`: what does not stand in the trace as a lane, such as the critical path. */
export type GroupKind = "steps" | "counter" | "host" | "device" | "extra";

export interface Lane {
  id: string;
  title: string;
  /** Rows of marks, one beneath the other. */
  depth: number;
  sort?: number;
  unit?: string;
  /** The first depths that hold next to nothing: the frames around everything. */
  outer?: number;
  /** Of a counter: the level at the top of the lane. */
  max?: number;
  /** Of a counter: what its colour means. */
  kind?: string;
  /** How many there are. */
  events?: number;
  /**
   * Of a stream that replays graphs: the depth at which each replay is one slice, all that is seen of a folded lane.
   * Deeper ones, of replays and of the calls in them, stand above the work itself.
   */
  slices?: number;
}

export interface Group {
  id: string;
  title: string;
  kind: GroupKind;
  lanes: Lane[];
  /** Folded until it is asked for. */
  collapsed?: boolean;
}

export interface Step {
  step: number | string;
  /** As the device sees it, which is how long all views say that it is. */
  start: number;
  end: number;
  host_start?: number;
  host_end?: number;
  /** False of those that warm up, and of an empty last one. */
  steady?: boolean;
}

export interface RankLanes {
  rank: number;
  /** Added to the rank's instants so that clocks agree. */
  offset: number;
  groups: Group[];
  /** Lanes beyond those listed. */
  more?: number;
  steps?: Step[];
}

export interface Minimap {
  /** Nanoseconds a bucket. */
  bucket: number;
  start?: number;
  /** Share of each bucket that a kind of device work fills, or host work where there is no device. */
  busy: Record<string, (number | null)[]>;
}

export interface Lanes {
  ranks: RankLanes[];
  start: number;
  end: number;
  /** What is shown at first; null: all. */
  home?: Span | null;
  minimap?: Minimap | null;
  version?: string;
  notes?: string[];
  /** Marks of the lane of a query, by rank. */
  query?: readonly QueryMarks[];
}

/** The rows of a query on one rank, by start: times in ns after its origin, an event or −1, a place in `names`. */
export interface QueryMarks {
  rank: number;
  start: number[];
  end: number[];
  row: number[];
  depth: number[];
  name: number[];
  names: string[];
  hues: number[];
}

/** A stretch of time in ns after the first event of the trace (of the first rank, where there are several). */
export interface Span {
  start: number;
  end: number;
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

export interface Place {
  row: number;
  lane: string;
  depth?: number;
  time: number;
  rank?: number;
}

export interface Arrow {
  start: Place;
  end: Place;
  kind: string;
}

export interface Frame {
  name: string;
  file?: string;
  line?: number;
}

/** Everything about one event; what is unknown is null or not there. */
export interface EventFacts {
  row: number;
  name: string;
  category?: string;
  kind?: string;
  lane: string;
  start: number;
  end: number;
  duration: number;
  self_time?: number | null;
  depth?: number;
  step?: number | string | null;
  arguments?: Record<string, unknown>;
  stack?: Frame[];
  module?: string | null;
  parent?: number | null;
  launched?: number[];
  launched_by?: number | null;
  forward?: number | null;
  backward?: number | null;
  device_total?: number | null;
  device_kernels?: number | null;
  limit?: {
    floor: number | null;
    efficiency: number | null;
    bound: string | null;
    waves: number | null;
  } | null;
  launch_delay?: number | null;
  /** The replay of a graph that it launches, is work of, or was captured for. */
  replay?: { readonly title: string; readonly template: number } | null;
  same?: {
    calls: number;
    per_step?: number | null;
    total?: number | null;
    share?: number | null;
    on_device?: boolean;
  } | null;
  arrows?: Arrow[];
  stack_note?: string;
}

export interface Found {
  total: number;
  at: number;
  row: number | null;
  start?: number;
  end?: number;
  lane?: string;
  depth?: number;
  matches_by_bucket?: number[];
  codes?: number[];
  /** All hits of a search in arguments; null where there are very many. */
  rows?: number[] | null;
}

/** An event among those of its name and kind. */
export interface Occurrence {
  row: number;
  place: number;
  total: number;
}

export interface RangeFacts {
  sentence: string;
  facts?: string[];
  busy?: Record<string, number>;
  by_kind?: { kind: string; ns: number }[];
  top?: {
    name: string;
    label?: string;
    kind: string;
    ns: number;
    calls: number;
    row?: number;
    side?: string;
    hue?: number;
  }[];
  /** Classes of modules with the most time, where colours are by module. */
  modules?: { name: string; hue: number; ns: number }[];
}

/** A stretch of the critical path in one lane, at the place of its longest piece. */
export interface PathRun extends Span {
  row: number | null;
  /** Null where nothing was recorded. */
  lane: string | null;
  depth: number;
  kind: string;
  pieces: number;
}

export interface PathFacts {
  /** Runs in the range; those that are told are the longest. */
  total: number;
  runs: PathRun[];
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
  arrows: Arrow[];
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
  matches: { codes: number[] | null; rows: number[] | null; buckets: number[] } | null;
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
  | { say: "lanes"; lanes: Lanes }
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
