/** Rows of a table that may have a million of them: asked for in windows, the latest of which are kept. */

import { useEffect, useReducer, useRef } from "preact/hooks";
import { told } from "../api/ask";
import type { ApiError } from "../api/transport";
import type { TableAnswer } from "../api/answers";

/** Where rows come from. Two sources with the same key give the same rows. */
export interface Source {
  readonly key: string;
  readonly ask: (window: Window, signal: AbortSignal) => Promise<TableAnswer>;
}

export interface Window {
  readonly offset: number;
  readonly limit: number;
}

export interface Rows {
  /** Columns, counts and notes; undefined before the first answer. */
  readonly head: TableAnswer | undefined;
  readonly error: ApiError | null;
  readonly loading: boolean;
  /** A row, undefined while it is on its way. */
  readonly at: (place: number) => readonly unknown[] | undefined;
  /** Sees to it that these rows come. */
  readonly want: (first: number, last: number) => void;
  readonly again: () => void;
}

export const SIZE = 200;
const KEPT = 40;

class Windows {
  readonly answers = new Map<number, TableAnswer>();
  readonly short: Record<string, string> = {};
  private readonly asked = new Map<number, AbortController>();
  head: TableAnswer | undefined;
  error: ApiError | null = null;

  constructor(
    readonly source: Source,
    private readonly changed: () => void,
  ) {}

  want(first: number, last: number): void {
    const wanted = new Set<number>();
    for (let place = Math.floor(first / SIZE); place <= Math.floor(Math.max(first, last) / SIZE); place += 1)
      wanted.add(place);
    for (const [place, stop] of this.asked) if (!wanted.has(place) && place !== 0) stop.abort();
    for (const place of wanted) {
      const kept = this.answers.get(place);
      if (kept) {
        this.answers.delete(place); // The latest used stands last.
        this.answers.set(place, kept);
      } else if (!this.asked.has(place)) void this.fetch(place);
    }
  }

  private async fetch(place: number): Promise<void> {
    const stop = new AbortController();
    this.asked.set(place, stop);
    try {
      const answer = await this.source.ask({ offset: place * SIZE, limit: SIZE }, stop.signal);
      this.answers.set(place, answer);
      Object.assign(this.short, answer.short);
      this.head ??= { ...answer, short: this.short };
      this.error = null;
      for (const oldest of this.answers.keys()) if (this.answers.size > KEPT) this.answers.delete(oldest);
    } catch (error) {
      if (!stop.signal.aborted) this.error = told(error);
    } finally {
      if (this.asked.get(place) === stop) this.asked.delete(place);
      if (!stop.signal.aborted) this.changed();
    }
  }

  stop(): void {
    for (const each of this.asked.values()) each.abort();
    this.asked.clear();
  }

  get loading(): boolean {
    return this.asked.size > 0;
  }
}

export function useRows(source: Source): Rows {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const current = useRef<Windows | null>(null);
  const before = useRef<TableAnswer | undefined>(undefined);
  if (current.current?.source.key !== source.key) {
    before.current = current.current?.head ?? before.current;
    current.current?.stop();
    const made: Windows = new Windows(source, () => current.current === made && draw(0));
    current.current = made;
  }
  const windows = current.current as Windows;
  useEffect(() => {
    windows.want(0, SIZE - 1);
    draw(0);
  }, [windows]);
  useEffect(() => () => current.current?.stop(), []);
  return {
    head: windows.head ?? before.current,
    error: windows.error,
    loading: windows.loading || !windows.head,
    at: (place) => windows.answers.get(Math.floor(place / SIZE))?.rows[place % SIZE],
    want: (first, last) => windows.want(first, last),
    again: () => {
      current.current = null;
      draw(0);
    },
  };
}
