// Made by web/generate.py; do not edit.

export type Unit = "" | "ns" | "bytes" | "bytes/s" | "flop" | "flop/s" | "fraction";

/** A link; what it does not name stays as it is. */
export interface Link {
  readonly text: string;
  readonly view: string;
  readonly rank: number | null;
  readonly steps: string | null;
  readonly time: readonly [number, number] | null;
  readonly row: number | null;
  readonly params: Readonly<Record<string, string>>;
  readonly file: string;
  readonly line: number;
  readonly cycle: number | null;
  readonly clear: boolean;
}

/** A share of a whole: a kind of time (its colour), a label, a value in the block's unit, what it means. */
export interface Part {
  readonly kind: string;
  readonly label: string;
  readonly value: number;
  readonly doc: string;
  readonly link: Link | null;
  readonly shade: number;
}

/** One bar divided into parts, with its key beneath: value and share of each part. */
export interface Parts {
  readonly block: "parts";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly parts: readonly Part[];
  readonly unit: "" | "ns" | "bytes" | "bytes/s" | "flop" | "flop/s" | "fraction";
}

/** One column of `ColumnsBlock`: a label, a value for each part (None where there is none), where a click leads. */
export interface Stack {
  readonly label: string;
  readonly values: readonly (number | null)[];
  readonly link: Link | null;
  readonly apart: string;
  readonly mark: string;
}

/** Stacked columns beside one another on one scale: steps, or ranks. `parts` have no values of their own. */
export interface Columns {
  readonly block: "columns";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly parts: readonly Part[];
  readonly stacks: readonly Stack[];
  readonly unit: "" | "ns" | "bytes" | "bytes/s" | "flop" | "flop/s" | "fraction";
}

/** One bar of `BarsBlock`. */
export interface Bar {
  readonly label: string;
  readonly kind: string;
  readonly value: number;
  readonly share: number | null;
  readonly detail: string;
  readonly link: Link | null;
  readonly name: string;
  readonly chosen: boolean;
  readonly before: number | null;
}

/** The few that make most of it: ranked bars with their share, and the share of all so far. */
export interface Bars {
  readonly block: "bars";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly bars: readonly Bar[];
  readonly unit: "" | "ns" | "bytes" | "bytes/s" | "flop" | "flop/s" | "fraction";
  readonly cumulative: boolean;
}

/** A number with its unit, or words. `text` is shown if it is there; `doc` on hover. */
export interface Cell {
  readonly value: number | null;
  readonly unit: "" | "ns" | "bytes" | "bytes/s" | "flop" | "flop/s" | "fraction";
  readonly text: string;
  readonly doc: string;
  readonly link: Link | null;
}

/** A line of `FactsBlock`: what it is, what that means, a cell for each column. */
export interface Fact {
  readonly label: string;
  readonly cells: readonly Cell[];
  readonly doc: string;
}

/** A few named numbers, in one column or one for each device. */
export interface Facts {
  readonly block: "facts";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly facts: readonly Fact[];
  readonly heads: readonly string[];
}

/** Something to change: time at stake per step (ns, from sure to possible), why, and how. */
export interface FindingRow {
  readonly code: string;
  readonly severity: string;
  readonly certainty: string;
  readonly low: number;
  readonly high: number;
  readonly message: string;
  readonly detail: string;
  readonly change: string;
  readonly links: readonly Link[];
  readonly rule: string;
  readonly markdown: string;
}

/** Findings, ranked by time at stake; `step` is the length of a step in ns, to which bars are drawn. */
export interface Findings {
  readonly block: "findings";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly findings: readonly FindingRow[];
  readonly step: number;
}

/** The findings of another page, under the same selection: they take longer, so this page does not wait for them. */
export interface Elsewhere {
  readonly block: "elsewhere";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly page: string;
  readonly limit: number;
}

/** The rows of an analysis under the selection of the header, sorted, searched and paged by the server. */
export interface Table {
  readonly block: "table";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly analysis: string;
  readonly params: Readonly<Record<string, string>>;
  readonly columns: readonly string[];
  readonly sort: string;
  readonly filter: string;
  readonly limit: number;
  readonly links: Readonly<Record<string, string>>;
}

/** A column of `RowsBlock`: its name, Polars type as text, unit and meaning. */
export interface Head {
  readonly name: string;
  readonly dtype: string;
  readonly unit: "" | "ns" | "bytes" | "bytes/s" | "flop" | "flop/s" | "fraction";
  readonly doc: string;
}

/** A table that no single analysis answers with: all its rows, which the page sorts and searches itself. */
export interface Rows {
  readonly block: "rows";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly columns: readonly Head[];
  readonly rows: readonly (readonly unknown[])[];
  readonly scales: Readonly<Record<string, readonly [string, number]>>;
  readonly short: Readonly<Record<string, string>>;
}

/** A Vega-Lite specification in the colours of light pages; a dark page puts its own colour of the kind for each. */
export interface Chart {
  readonly block: "chart";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly spec: Readonly<Record<string, unknown>>;
}

/** A tree as nested rectangles, roots above: columns of equal length, parents before children. */
export interface Icicle {
  readonly block: "icicle";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly name: readonly string[];
  readonly parent: readonly number[];
  readonly value: readonly number[];
  readonly kind: readonly string[];
  readonly detail: readonly string[];
  readonly alike: readonly number[];
  readonly other: readonly number[];
  readonly wide: "now" | "before";
  readonly unit: "" | "ns" | "bytes" | "bytes/s" | "flop" | "flop/s" | "fraction";
  readonly short: Readonly<Record<string, string>>;
  readonly picks: string;
  readonly upward: boolean;
}

/** The timelines of this run and of the one that it is compared with, one above the other, moved together. */
export interface Timelines {
  readonly block: "timelines";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly rank: number;
  readonly other_rank: number;
}

/** One coloured band over time: segments by start. */
export interface Ribbon {
  readonly block: "ribbon";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly texts: readonly string[];
  readonly start: readonly number[];
  readonly end: readonly number[];
  readonly name: readonly number[];
  readonly kind: readonly number[];
  readonly lane: readonly number[];
  readonly row: readonly number[];
}

/** Something that happened during a run, drawn above its step times. */
export interface RunMark {
  readonly kind: string;
  readonly step: number;
  readonly until: number;
  readonly words: string;
  readonly count: number;
  readonly link: Link | null;
}

/** The step times of a whole run: bands over ranks, ranks that are behind, marks; a server has them at any scale. */
export interface History {
  readonly block: "history";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly size: number;
  readonly step: readonly number[];
  readonly fastest: readonly number[];
  readonly median: readonly number[];
  readonly slowest: readonly number[];
  readonly rank: readonly number[];
  readonly ranks: readonly string[];
  readonly behind: readonly (readonly (number | null)[])[];
  readonly marks: readonly RunMark[];
  readonly chosen: readonly [number, number] | null;
}

/** Points below the roofs of a device, on logarithmic axes: operations a second over operations a byte. */
export interface Roofline {
  readonly block: "roofline";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly parts: readonly Part[];
  readonly texts: readonly string[];
  readonly name: readonly number[];
  readonly detail: readonly number[];
  readonly kind: readonly number[];
  readonly at: readonly number[];
  readonly over: readonly number[];
  readonly time: readonly number[];
  readonly calls: readonly number[];
  readonly intensity: readonly (number | null)[];
  readonly rate: readonly (number | null)[];
  readonly bandwidth: readonly (number | null)[];
  readonly efficiency: readonly (number | null)[];
  readonly headroom: readonly (number | null)[];
  readonly roofs: readonly (readonly [string, readonly number[], readonly number[], boolean])[];
  readonly x: readonly [number, number];
  readonly y: readonly [number, number];
  readonly lane: number;
  readonly picks: string;
  readonly chosen: string;
}

/** An instant of a history that matters; `time` is ns after the first event of the trace, if known. */
export interface Moment {
  readonly label: string;
  readonly event: number;
  readonly time: number | null;
}

/** The memory of a device as its allocator recorded it: bands by category, and the segments at an instant below. */
export interface Allocator {
  readonly block: "allocator";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly device: number;
  readonly events: number;
  readonly span: readonly [number, number] | null;
  readonly by: "time" | "event";
  readonly categories: readonly (readonly [string, string])[];
  readonly moments: readonly Moment[];
  readonly steps: readonly Moment[];
  readonly kept: readonly number[];
}

/** A line of a file that took time: its number, nanoseconds in itself and in all, and a few words. */
export interface LineTime {
  readonly line: number;
  readonly self_time: number;
  readonly total_time: number;
  readonly detail: string;
}

/** A file with the time of its lines in the gutter. Its text is asked for separately, if it may be read at all. */
export interface Source {
  readonly block: "source";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly file: string;
  readonly lines: readonly LineTime[];
}

/** A parameter of the page that its reader may change: a choice (`choices` of value and label), a slider, or runs. */
export interface Control {
  readonly name: string;
  readonly label: string;
  readonly value: string;
  readonly choices: readonly (readonly [string, string])[];
  readonly low: number;
  readonly high: number;
  readonly step: number;
  readonly unit: string;
  readonly doc: string;
  readonly runs: boolean;
  readonly chosen: boolean;
}

/** Parameters of the page; a change asks for the page anew. */
export interface Controls {
  readonly block: "controls";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly controls: readonly Control[];
  readonly title: string;
}

/** A few sentences, where a picture would be empty, or to explain one; `alert`: to be read before anything else. */
export interface Note {
  readonly block: "note";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly text: string;
  readonly title: string;
  readonly link: Link | null;
  readonly alert: boolean;
}

/** Lines of code as they are; of a diff, `-` and `+` begin what goes out and what comes in. */
export interface Code {
  readonly block: "code";
  readonly note: string;
  readonly width: "full" | "wide" | "narrow";
  readonly title: string;
  readonly text: string;
}

/** A view: what it found, in one sentence; facts; then pictures and tables; at its end what it cannot tell. */
export interface Page {
  readonly name: string;
  readonly title: string;
  readonly sentence: string;
  readonly facts: readonly string[];
  readonly blocks: readonly Block[];
  readonly cannot: readonly string[];
  readonly select: Readonly<Record<string, string>>;
}

export type Block = Parts | Columns | Bars | Facts | Findings | Elsewhere | Table | Rows | Chart | Icicle | Timelines | Ribbon | History | Roofline | Allocator | Source | Controls | Note | Code;
