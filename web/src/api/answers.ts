// Made by web/generate.py; do not edit.

import type { Unit } from "./blocks";

/** The server: its version, whether it asks for a login, prefixes of paths and what stands here in their place. */
export interface ServerInfo {
  readonly version: string;
  readonly auth: boolean;
  readonly features: ServerFeatures;
  readonly maps: readonly (readonly [string, string])[];
  readonly pages: readonly PageName[];
}

/** Optional features: folders of sources may be read, Perfetto is served, the editor that opens files ("": none). */
export interface ServerFeatures {
  readonly source_roots: boolean;
  readonly perfetto: boolean;
  readonly editor: string;
}

/** An entry of the menu; its fields are those of `pages.View`. */
export interface PageName {
  readonly name: string;
  readonly title: string;
  readonly ranks: "one" | "all" | "job";
  readonly recorded: boolean;
  readonly always: boolean;
}

/** All analyses, by name. */
export interface AnalysisList {
  readonly groups: readonly AnalysisGroup[];
  readonly analyses: Readonly<Record<string, AnalysisFacts>>;
}

/** A heading, and the names of the analyses below it. */
export interface AnalysisGroup {
  readonly title: string;
  readonly names: readonly string[];
}

/** An analysis; `all_ranks`: it asks all ranks, whatever rank the header shows. */
export interface AnalysisFacts {
  readonly title: string;
  readonly question: string;
  readonly doc: string;
  readonly parameters: readonly ParameterFacts[];
  readonly columns: readonly Column[];
  readonly chart: boolean;
  readonly all_ranks: boolean;
}

/** A parameter of an analysis, and the kind of input in a form. */
export interface ParameterFacts {
  readonly name: string;
  readonly type: "int" | "float" | "bool" | "text" | "choice";
  readonly default: unknown;
  readonly doc: string;
  readonly unit: Unit;
  readonly choices: readonly string[];
}

/** One column. */
export interface Column {
  readonly name: string;
  readonly dtype: string;
  readonly doc: string;
  readonly unit: Unit;
  readonly instant: boolean;
}

/** The runs, newest first, and what is wrong with the paths that were named. */
export interface ListedRuns {
  readonly runs: readonly ListedRun[];
  readonly wrong: readonly string[];
}

/** A run in the list; `version` changes with its files. `ranks` is None before it was opened. */
export interface ListedRun {
  readonly id: string;
  readonly name: string;
  readonly path: string;
  readonly state: "ready" | "growing" | "error";
  readonly error: string;
  readonly version: string;
  readonly files: number;
  readonly bytes: number;
  readonly modified: number | null;
  readonly ranks: readonly number[] | null;
}

/** A run, and the trace of one of its ranks. */
export interface RunInfo {
  readonly id: string;
  readonly name: string;
  readonly path: string;
  readonly state: "ready" | "growing" | "error";
  readonly error: string;
  readonly version: string;
  readonly files: number;
  readonly bytes: number;
  readonly modified: number | null;
  readonly ranks: readonly number[];
  readonly rank: number;
  readonly cycle: number;
  readonly cycles: number;
  readonly damage: string;
  readonly duration: number;
  readonly base: string;
  readonly origin: string;
  readonly events: number;
  readonly views: readonly string[];
  readonly first_view: string;
  readonly steps: readonly RunStep[];
  readonly steps_rest_on: string;
  readonly step_names: readonly string[];
  readonly devices: readonly NamedDevice[];
  readonly streams: readonly DeviceStream[];
  readonly threads: readonly HostThread[];
  readonly notes: readonly string[];
}

/** A step, ns after the first event; `steady`: neither a warm-up nor an empty last one. */
export interface RunStep {
  readonly step: number;
  readonly start: number;
  readonly end: number;
  readonly steady: boolean;
}

/** A device and what it is called. */
export interface NamedDevice {
  readonly device: number;
  readonly name: string;
}

/** A stream of a device. */
export interface DeviceStream {
  readonly device: number;
  readonly stream: number;
}

/** A thread of the host, its name and that of its process. */
export interface HostThread {
  readonly thread: number;
  readonly name: string;
  readonly process: string;
}

/** Bytes as stored: read, and in all (0: nothing is being read); and what is going on, in a word. */
export interface ReadProgress {
  readonly done: number;
  readonly total: number;
  readonly what: string;
}

/** A window of the arranged rows of a result. */
export interface TableAnswer {
  readonly analysis: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly columns: readonly Column[];
  readonly total: number;
  readonly all: number;
  readonly ranks: number | null;
  readonly notes: readonly string[];
  readonly scales: Readonly<Record<string, Scale>>;
  readonly short: Readonly<Record<string, string>>;
  readonly rows: readonly (readonly unknown[])[];
}

/** A unit to show numbers in: its label, and how many stored units make one of it. */
export interface Scale {
  readonly label: string;
  readonly divisor: number;
}

/** The tables that SQL sees. */
export interface SqlTables {
  readonly tables: readonly SqlTable[];
}

/** A table that a query may name. */
export interface SqlTable {
  readonly name: string;
  readonly doc: string;
  readonly columns: readonly Column[];
}

/** The marks on each rank that is drawn, and what of the rows is left out, in one sentence each. */
export interface QueryLanes {
  readonly lanes: readonly QueryMarks[];
  readonly notes: readonly string[];
}

/** The rows of a query on one rank, by start. */
export interface QueryMarks {
  readonly rank: number;
  readonly start: readonly number[];
  readonly end: readonly number[];
  readonly row: readonly number[];
  readonly depth: readonly number[];
  readonly name: readonly number[];
  readonly names: readonly string[];
  readonly hues: readonly number[];
}

/** Lines of the `file` here that was `asked` for, of `all` that it has; the number of the first is `first`. */
export interface SourceText {
  readonly file: string;
  readonly asked: string;
  readonly first: number;
  readonly lines: readonly string[];
  readonly all: number;
}

/** All notes of a run, what of their files cannot be read or changed, and the file that new ones are written to. */
export interface TimelineNotes {
  readonly notes: readonly TimelineNote[];
  readonly problem: string;
  readonly where: string;
}

/** A note. */
export interface TimelineNote {
  readonly id: string;
  readonly rank: number;
  readonly start: number;
  readonly end: number;
  readonly text: string;
  readonly colour: "blue" | "orange" | "green" | "purple" | "red" | "teal";
  readonly row: number | null;
  readonly revision: number;
}

/** The lanes of some ranks on one clock, and what is shown `home`, at first; None: all of it. */
export interface TimelineLanes {
  readonly version: string;
  readonly ranks: readonly RankLanes[];
  readonly start: number;
  readonly end: number;
  readonly home: TimeSpan | null;
  readonly minimap: Minimap;
  readonly notes: readonly string[];
}

/** The lanes of a rank; `offset` is added to its times so that clocks agree, `more` lanes are not listed. */
export interface RankLanes {
  readonly rank: number;
  readonly offset: number;
  readonly groups: readonly TimelineGroup[];
  readonly more: number;
  readonly steps: readonly TimelineStep[];
}

/** Lanes with a common title; `extra` is not in the trace as a lane. `collapsed`: folded until it is asked for. */
export interface TimelineGroup {
  readonly id: string;
  readonly title: string;
  readonly kind: "steps" | "counter" | "host" | "device" | "extra";
  readonly lanes: readonly TimelineLane[];
  readonly collapsed: boolean;
}

/** A lane: rows of marks, or the curve of a counter. */
export interface TimelineLane {
  readonly id: string;
  readonly title: string;
  readonly depth: number;
  readonly sort: number;
  readonly kind: string;
  readonly events: number;
  readonly outer: number;
  readonly slices: number | null;
  readonly unit: string;
  readonly max: number | null;
}

/** A step as the device sees it, and when the host was in it; `steady`: neither a warm-up nor an empty last one. */
export interface TimelineStep {
  readonly step: number;
  readonly start: number;
  readonly end: number;
  readonly host_start: number;
  readonly host_end: number;
  readonly steady: boolean;
}

/** A stretch of time, in ns. */
export interface TimeSpan {
  readonly start: number;
  readonly end: number;
}

/** The share of each bucket of `bucket` ns that each kind of device work fills; host work where there is none. */
export interface Minimap {
  readonly start: number;
  readonly bucket: number;
  readonly busy: Readonly<Record<string, readonly number[]>>;
}

/** An event of the timeline; what is unknown is None. */
export interface EventDetails {
  readonly row: number;
  readonly name: string;
  readonly category: string;
  readonly kind: string;
  readonly lane: string | null;
  readonly depth: number;
  readonly start: number;
  readonly end: number;
  readonly duration: number;
  readonly self_time: number | null;
  readonly step: number | null;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly stack: readonly Frame[];
  readonly stack_note: string;
  readonly module: string;
  readonly parent: number | null;
  readonly launched: readonly number[];
  readonly launched_by: number | null;
  readonly forward: number | null;
  readonly backward: number | null;
  readonly device_total: number | null;
  readonly device_kernels: number;
  readonly limit: EventLimit | null;
  readonly launch_delay: number | null;
  readonly same: SameName;
  readonly replay: ReplayOf | null;
  readonly arrows: readonly Arrow[];
}

/** A frame of a Python stack; file "" and line 0 where they are not known. */
export interface Frame {
  readonly name: string;
  readonly file: string;
  readonly line: number;
}

/** The limit of an event on the device; what is unknown is None. */
export interface EventLimit {
  readonly floor: number | null;
  readonly efficiency: number | null;
  readonly bound: string | null;
  readonly waves: number | null;
}

/** All events of one name and kind. */
export interface SameName {
  readonly calls: number;
  readonly per_step: number | null;
  readonly total: number;
  readonly share: number | null;
  readonly on_device: boolean;
}

/** The replay that an event belongs to: what its slice is called, and the number of its template. */
export interface ReplayOf {
  readonly title: string;
  readonly template: number;
}

/** An arrow from a cause to what follows it. */
export interface Arrow {
  readonly start: ArrowEnd;
  readonly end: ArrowEnd;
  readonly kind: "launch" | "forward_backward" | "wait";
}

/** One end of an arrow: an event, its lane and depth, and a time on it, ns after the origin. */
export interface ArrowEnd {
  readonly row: number;
  readonly lane: string | null;
  readonly depth: number;
  readonly time: number;
}

/** One of the hits, as asked for; without any, `at` is −1 and the fields of the hit are None. */
export interface SearchResult {
  readonly total: number;
  readonly at: number;
  readonly matches_by_bucket: readonly number[];
  readonly codes: readonly number[];
  readonly rows: readonly number[] | null;
  readonly row: number | null;
  readonly name: string | null;
  readonly start: number | null;
  readonly end: number | null;
  readonly lane: string | null;
  readonly depth: number | null;
}

/** A range: a sentence, facts, the busy share of each device, and what took the most time. */
export interface RangeAnswer {
  readonly sentence: string;
  readonly facts: readonly string[];
  readonly busy: Readonly<Record<string, number>>;
  readonly by_kind: readonly KindTime[];
  readonly top: readonly TopOfRange[];
  readonly modules: readonly ModuleTime[];
}

/** Time of a kind of device work, the mean of the devices. */
export interface KindTime {
  readonly kind: string;
  readonly ns: number;
}

/** A name that takes much of the time of a range; `label` is its short form, `row` its longest event. */
export interface TopOfRange {
  readonly name: string;
  readonly label: string;
  readonly kind: string;
  readonly ns: number;
  readonly calls: number;
  readonly row: number;
  readonly side: "device" | "host";
  readonly hue: number;
}

/** Time of a class of modules, and its colour. */
export interface ModuleTime {
  readonly name: string;
  readonly hue: number;
  readonly ns: number;
}

/** The line of the critical path: the longest of `total` runs, in order of time. */
export interface PathRuns {
  readonly total: number;
  readonly runs: readonly PathRun[];
}

/** A stretch of the critical path in one lane, at its longest piece; nothing was recorded where `lane` is None. */
export interface PathRun {
  readonly row: number | null;
  readonly lane: string | null;
  readonly depth: number;
  readonly start: number;
  readonly end: number;
  readonly kind: string;
  readonly pieces: number;
}

/** An event of a rank among those of its name and kind in an area: its place in time, and their number. */
export interface RankOccurrence {
  readonly rank: number;
  readonly row: number;
  readonly place: number;
  readonly total: number;
}

/** A stretch of the history of a device. */
export interface MemoryBands {
  readonly by: "time" | "event";
  readonly start: number;
  readonly end: number;
  readonly categories: readonly string[];
  readonly times: readonly number[] | null;
  readonly rows: readonly (readonly number[])[];
}

/** The heap at an instant. */
export interface MemoryHeap {
  readonly event: number;
  readonly time: number | null;
  readonly sentence: string;
  readonly groups: readonly string[];
  readonly segments: HeapSegments;
  readonly bytes: Readonly<Record<string, number>>;
  readonly rows: readonly (readonly [number, number, number, number, number, number, number, boolean])[];
}

/** The segments, in parallel: address (hexadecimal), bytes, group, event of the request, whether it grows. */
export interface HeapSegments {
  readonly address: readonly string[];
  readonly size: readonly number[];
  readonly group: readonly number[];
  readonly allocated_at: readonly number[];
  readonly expandable: readonly boolean[];
}

/** An allocation: facts in words, and the stack of its request, the innermost frame first. */
export interface MemoryAllocation {
  readonly row: number;
  readonly category: string;
  readonly facts: readonly string[];
  readonly frames: readonly AllocationFrame[];
}

/** A frame of the stack of an allocation; `user`: the file is the user's own. */
export interface AllocationFrame {
  readonly name: string;
  readonly file: string;
  readonly line: number;
  readonly user: boolean;
}

/** How far a run is. */
export interface HistoryState {
  readonly rows: number;
  readonly reading: number;
  readonly ranks: number;
  readonly first: number;
  readonly end: number;
  readonly age: number | null;
  readonly ended: boolean;
  readonly error: string;
}

/** Buckets of step times; null where there is no step. */
export interface HistoryTile {
  readonly size: number;
  readonly first: number;
  readonly fastest: readonly (number | null)[];
  readonly median: readonly (number | null)[];
  readonly slowest: readonly (number | null)[];
  readonly rank: readonly number[];
  readonly ranks: readonly string[];
  readonly behind: readonly (readonly (number | null)[])[];
  readonly marks: readonly RunMark[];
  readonly whole: boolean;
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

/** The header; the tile `i` of units of 2^`z` ns. `kinds` and `names` are what numbers in the columns mean. */
export interface TileHeader {
  readonly z: number;
  readonly i: number;
  readonly lanes: readonly TileSlice[];
  readonly counters: readonly TileSlice[];
  readonly kinds: readonly string[];
  readonly names: Readonly<Record<string, string>>;
  readonly arrays: Readonly<Record<string, TileColumn>>;
}

/** The marks of a lane, or the points of a counter, in the columns. */
export interface TileSlice {
  readonly id: string;
  readonly offset: number;
  readonly count: number;
}

/** An array: its type, as NumPy calls it, its place in bytes after the header, and its length. */
export interface TileColumn {
  readonly dtype: string;
  readonly offset: number;
  readonly count: number;
}
