/** What is searched for and where it was found. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { ViewProps } from "../../base/props";
import type { Found } from "./types";

interface SearchState {
  readonly api: ViewProps["api"];
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly rank: number;
  readonly start: string;
  readonly from: number | null;
  readonly pick: (rank: number, row: number) => void;
  readonly keep: (text: string) => void;
}

const TYPING = 220;

/** Typing shows all places, Enter goes to one after the other. */
export function useSearch({ api, path, query, rank, start, from, pick, keep }: SearchState) {
  const [text, setText] = useState(start);
  const [found, setFound] = useState<Found | null>(null);
  const [failed, fail] = useState("");
  const turn = useRef(0);
  const typed = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const ask = async (q: string, direction: "next" | "previous", after: number | null, go: boolean) => {
    const mine = ++turn.current;
    fail("");
    try {
      const answer = await api.json<Found>(`${path}/search`, {
        ...query,
        rank,
        q,
        direction,
        ...(after != null && { after }),
      });
      if (mine !== turn.current) return;
      setFound(go ? answer : { ...answer, row: null });
      if (go && answer.row != null) pick(rank, answer.row);
    } catch (error) {
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
      keep(text);
      void ask(text, "next", null, false);
    }, TYPING);
    return () => clearTimeout(typed.current);
  }, [text, rank, path]);
  return {
    text,
    found,
    failed,
    type: setText,
    find: (direction: "next" | "previous") => {
      if (!text) return;
      clearTimeout(typed.current); // What typing would ask would make this answer too late.
      keep(text);
      void ask(text, direction, found?.row ?? from, true);
    },
    clear: () => {
      setText("");
      keep("");
    },
  };
}
