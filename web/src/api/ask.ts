/** Answers as a component needs them: loading, there, or not to be had. */

import { useEffect, useRef, useState } from "preact/hooks";
import { shown } from "../base/numbers";
import { api } from "./client";
import { ApiError, pairs, type Query } from "./transport";

export interface Asked<T> {
  readonly data: T | undefined;
  readonly error: ApiError | null;
  /** An answer is on its way; `data` may be the one before. */
  readonly loading: boolean;
  readonly again: () => void;
}

/** What is on its way, for the bar at the top of the page: since when, and how it is stopped. */
export const underway = new Map<object, { readonly since: number; readonly stop?: (() => void) | undefined }>();

/** Asks `path` whenever the question, or the version of what is asked, changes; null asks nothing. */
export function useAnswer<T>(path: string | null, query: Query = {}, version = ""): Asked<T> {
  const key = path === null ? "" : path + JSON.stringify(pairs(query)) + version;
  const [state, set] = useState<{ key: string; data?: T; error?: ApiError }>({ key: "" });
  const [turn, again] = useState(0);
  const last = useRef<T | undefined>(undefined);
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    const began = performance.now();
    // What was answered before to the same question stays: it is no less true for the server being away.
    const fail = (error: ApiError) =>
      set((before) => ({
        key,
        error,
        ...(before.key === key && before.data !== undefined ? { data: before.data } : {}),
      }));
    const giveUp = () => {
      stop.abort();
      const after = `Stopped after ${shown((performance.now() - began) * 1e6, "ns")}.`;
      fail(new ApiError(after, "What was computed is kept: to ask again takes less."));
    };
    void tracked(api.json<T>(path, query, stop.signal), giveUp).then(
      (data) => {
        if (stop.signal.aborted) return;
        last.current = data;
        set({ key, data });
      },
      (error: unknown) => !stop.signal.aborted && fail(told(error)),
    );
    return () => stop.abort();
  }, [key, turn]);
  const current = state.key === key;
  return {
    data: current ? state.data : last.current,
    error: (current && state.error) || null,
    loading: path !== null && !current,
    again: () => again((value) => value + 1),
  };
}

/** Counts as under way until it is settled. */
export async function tracked<T>(promise: Promise<T>, stop?: () => void): Promise<T> {
  const mark = {};
  underway.set(mark, { since: performance.now(), stop });
  try {
    return await promise;
  } finally {
    underway.delete(mark);
  }
}

export function told(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(error instanceof Error ? error.message : String(error));
}
