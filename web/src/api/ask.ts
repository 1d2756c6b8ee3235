/** Answers as a component needs them: loading, there, or not to be had. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "./client";
import { ApiError, pairs, type Query } from "./transport";

export interface Asked<T> {
  readonly data: T | undefined;
  readonly error: ApiError | null;
  /** An answer is on its way; `data` may be the one before. */
  readonly loading: boolean;
  readonly again: () => void;
}

/** What is on its way, for the bar at the top of the page. */
export const underway = new Set<object>();

/** Asks `path` whenever the question, or the version of what is asked, changes; null asks nothing. */
export function useAnswer<T>(path: string | null, query: Query = {}, version = ""): Asked<T> {
  const key = path === null ? "" : path + JSON.stringify(pairs(query)) + version;
  const [state, set] = useState<{ key: string; data?: T; error?: ApiError }>({ key: "" });
  const [turn, again] = useState(0);
  const last = useRef<T | undefined>(undefined);
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    void tracked(api.json<T>(path, query, stop.signal)).then(
      (data) => {
        if (stop.signal.aborted) return;
        last.current = data;
        set({ key, data });
      },
      // What was answered before to the same question stays: it is no less true for the server being away.
      (error: unknown) =>
        !stop.signal.aborted &&
        set((before) => ({
          key,
          error: told(error),
          ...(before.key === key && before.data !== undefined ? { data: before.data } : {}),
        })),
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
export async function tracked<T>(promise: Promise<T>): Promise<T> {
  const mark = {};
  underway.add(mark);
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
