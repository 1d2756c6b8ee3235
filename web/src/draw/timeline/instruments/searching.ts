/** What is searched for and where it was found. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError } from "../../../api/transport";
import type { ViewProps } from "../../../base/props";
import type { SearchResult } from "../../../api/answers";

interface SearchState {
  readonly api: ViewProps["api"];
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly rank: number;
  readonly start: string;
  /** Whether arguments are searched at first. */
  readonly args: boolean;
  readonly from: number | null;
  readonly pick: (rank: number, row: number) => void;
  readonly keep: (text: string, args: boolean) => void;
}

export interface Searched {
  readonly text: string;
  readonly found: SearchResult | null;
  readonly failed: string;
  /** Arguments are searched, too. */
  readonly args: boolean;
  readonly setArgs: (on: boolean) => void;
  readonly type: (text: string) => void;
  readonly find: (direction: "next" | "previous") => void;
  readonly clear: () => void;
  /** What a question about arguments says of who asks: the server ends the one before. */
  readonly asked: () => Readonly<Record<string, string | number>>;
}

const TYPING = 220;
/** Status of the answer to a search that a newer one replaced. */
const REPLACED = 409;
const CLIENT = Math.random().toString(36).slice(2);
let turns = 0;

/** Typing shows all places, Enter goes to one after the other. */
export function useSearch({ api, path, query, rank, start, args: first, from, pick, keep }: SearchState): Searched {
  const [args, setArgs] = useState(first);
  const [text, setText] = useState(start);
  const [found, setFound] = useState<SearchResult | null>(null);
  const [failed, fail] = useState("");
  const turn = useRef(0);
  const typed = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const ask = async (q: string, direction: "next" | "previous", after: number | null, go: boolean) => {
    const mine = ++turn.current;
    fail("");
    try {
      const answer = await api.json<SearchResult>(`${path}/search`, {
        ...query,
        rank,
        q,
        direction,
        ...(args && { arguments: "1", client: CLIENT, turn: ++turns }),
        ...(after != null && { after }),
      });
      if (mine !== turn.current) return;
      setFound(go ? answer : { ...answer, row: null });
      if (go && answer.row != null) pick(rank, answer.row);
    } catch (error) {
      if (error instanceof ApiError && error.status === REPLACED) return;
      if (mine === turn.current) fail(error instanceof Error ? error.message : String(error));
    }
  };
  useEffect(() => {
    if (!text) {
      turn.current++;
      setFound(null);
      fail("");
      return;
    }
    typed.current = setTimeout(() => {
      keep(text, args);
      void ask(text, "next", null, false);
    }, TYPING);
    return () => clearTimeout(typed.current);
  }, [text, args, rank, path]);
  return {
    text,
    // Of another event that was chosen meanwhile the place among the hits is not known.
    found: useMemo(() => (found && found.row !== from ? { ...found, row: null } : found), [found, from]),
    failed,
    type: setText,
    find: (direction: "next" | "previous") => {
      if (!text) return;
      clearTimeout(typed.current); // What typing would ask would make this answer too late.
      keep(text, args);
      void ask(text, direction, from ?? found?.row ?? null, true);
    },
    clear: () => {
      setText("");
      keep("", args);
    },
    args,
    setArgs,
    asked: () => ({ client: `${CLIENT}-list`, turn: ++turns }),
  };
}
