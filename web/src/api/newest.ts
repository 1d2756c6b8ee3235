/** Answers to questions that follow each other faster than they are answered: only the newest waits. */

import { useEffect, useRef, useState } from "preact/hooks";
import { tracked } from "./ask";
import { api } from "./client";
import { pairs, type Query } from "./transport";

const KEPT = 64;

/** The answer to the newest question that has one; null asks nothing. What was asked lately is not asked again. */
export function useNewest<T>(path: string, query: Query | null, version = ""): T | undefined {
  const [answer, set] = useState<T>();
  const kept = useRef(new Map<string, T>());
  const flight = useRef({ busy: false, waiting: null as (() => void) | null, gone: false });
  const key = query && path + JSON.stringify(pairs(query)) + version;
  useEffect(() => {
    if (!query || !key) return;
    const before = kept.current.get(key);
    const state = flight.current;
    const ask = async () => {
      state.busy = true;
      state.waiting = null;
      try {
        const data = await tracked(api.json<T>(path, query));
        kept.current.set(key, data);
        if (kept.current.size > KEPT) kept.current.delete(kept.current.keys().next().value as string);
        if (!state.gone) set(data);
      } catch {
        // What was answered before stays: the page itself says when the server is away.
      } finally {
        state.busy = false;
        (state.waiting as (() => void) | null)?.();
      }
    };
    if (before !== undefined) {
      state.waiting = null;
      set(before);
    } else if (state.busy) state.waiting = () => void ask();
    else void ask();
  }, [key]);
  useEffect(() => () => void (flight.current.gone = true), []);
  return answer;
}
