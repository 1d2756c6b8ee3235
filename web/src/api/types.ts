/** What the server answers besides pages (those are in blocks.ts). Times in ns; null is unknown. */

import type { Unit } from "./blocks";

export interface Server {
  readonly version: string;
  readonly features: { readonly source_roots?: boolean; readonly perfetto?: boolean; readonly editor?: string };
  readonly pages?: readonly {
    readonly name: string;
    readonly title: string;
    /** About the one that is chosen, or the first; about all; about the one that is chosen, or all. */
    readonly ranks?: "one" | "all" | "job";
    /** About all that was recorded, unless steps or a time are chosen; else about the steady steps. */
    readonly recorded?: boolean;
  }[];
  readonly maps?: readonly (readonly [string, string])[];
}

export interface Listed {
  readonly id: string;
  readonly name: string;
  readonly path: string;
  readonly state: "ready" | "growing" | "error";
  readonly error: string;
  /** Changes with the files. */
  readonly version: string;
  readonly files: number;
  readonly bytes: number | null;
  readonly modified: number | string | null;
  readonly ranks: readonly number[] | number | null;
}

export interface Step {
  readonly step: number;
  readonly start: number;
  readonly end: number;
  /** Neither of the warm-up nor an empty last one. */
  readonly steady?: boolean;
}

export interface Run {
  readonly id: string;
  readonly name: string;
  readonly ranks: readonly number[];
  /** The one whose steps, devices and threads these are. */
  readonly rank?: number;
  readonly steps: readonly Step[];
  readonly duration: number | null;
  readonly base: string | null;
  /** Annotations that may be steps, the likeliest first. */
  readonly step_names?: readonly string[];
  /** What the clock of the file showed at the time 0 of the page, in ns. */
  readonly origin?: string;
  /** What kind of program it is of: training, serving, inference, unknown; snapshot: of a memory snapshot without a trace. */
  readonly program?: string;
  /** How many cycles of the profiler this rank recorded. */
  readonly cycles?: number;
  readonly devices: readonly { readonly device: number; readonly name: string }[];
  readonly streams: readonly { readonly device: number; readonly stream: number }[];
  readonly threads: readonly { readonly thread: number; readonly name: string }[];
  readonly notes: readonly string[];
  /** That the file lost data, and how much; "" where it did not. */
  readonly damage?: string;
}

export interface Progress {
  readonly done: number;
  readonly total: number;
  readonly what: string;
}

export interface Column {
  readonly name: string;
  readonly dtype: string;
  readonly unit: Unit;
  readonly doc: string;
  readonly instant?: boolean;
}

export interface Parameter {
  readonly name: string;
  readonly type: "int" | "float" | "bool" | "text" | "choice";
  readonly default: unknown;
  readonly doc: string;
  readonly unit: Unit;
  readonly choices: readonly string[];
}

export interface AnalysisFacts {
  readonly title: string;
  readonly question: string;
  readonly doc: string;
  readonly parameters: readonly Parameter[];
  readonly columns: readonly Column[];
  readonly chart: boolean;
  /** It asks all ranks, whatever rank the header shows. */
  readonly all_ranks?: boolean;
}

export interface Analyses {
  readonly groups: readonly { readonly title: string; readonly names: readonly string[] }[];
  readonly analyses: Readonly<Record<string, AnalysisFacts>>;
}

export interface Answer {
  readonly analysis?: string;
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly unknown[])[];
  readonly total: number;
  readonly all: number;
  /** How many ranks all rows are of; null where rows are of none. */
  readonly ranks?: number | null;
  readonly notes: readonly string[];
  /** How names in the rows are shown, where that is not in full. */
  readonly short?: Readonly<Record<string, string>>;
  readonly scales: Readonly<Record<string, { readonly label: string; readonly divisor: number }>>;
}

export interface SqlTable {
  readonly name: string;
  readonly doc: string;
  readonly columns: readonly Column[];
}
