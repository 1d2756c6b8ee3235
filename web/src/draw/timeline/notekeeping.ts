/** Where notes are kept: by the server, with the run; in a report, which has none, in the address. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { told, useAnswer } from "../../api/ask";
import { runPath } from "../../api/client";
import type { ViewProps } from "../../base/props";
import { newId, type Note, notesOf, textOfNotes } from "./notes";

export interface Kept {
  notes: Note[];
  problem: string;
  where: string;
}

export interface Notes {
  readonly all: readonly Note[];
  readonly problem: string;
  /** The file that they are kept in; "" where they are kept in the address alone. */
  readonly where: string;
  readonly inLink: (note: Note) => boolean;
  readonly save: (note: Note) => Promise<void>;
  readonly remove: (note: Note) => Promise<void>;
}

export function useNotes({ api, run, params, go }: Pick<ViewProps, "api" | "run" | "params" | "go">): Notes {
  const path = runPath(run, "notes");
  const asked = useAnswer<Kept>(path);
  const [changed, setChanged] = useState<Kept | null>(null);
  const inLink = useMemo(() => notesOf(params["notes"]), [params["notes"]]);
  useEffect(() => setChanged(null), [asked.data]);
  useEffect(() => {
    // Another window may have changed them.
    addEventListener("focus", asked.again);
    return () => removeEventListener("focus", asked.again);
  }, [path]);
  const kept = changed ?? asked.data ?? null;
  const all = useMemo(
    () => [...(kept?.notes ?? []), ...inLink].sort((one, other) => one.start - other.start),
    [kept, inLink],
  );
  const write = (notes: readonly Note[]) =>
    go({ params: { notes: notes.length ? textOfNotes(notes) : null } }, { replace: true });
  const post = async (body: object) => {
    try {
      setChanged(await api.post<Kept>(path, {}, body));
    } catch (error) {
      asked.again();
      throw told(error);
    }
  };
  const isInLink = (note: Note) => inLink.some(({ id }) => id === note.id);
  const others = (note: Note) => inLink.filter(({ id }) => id !== note.id);
  return {
    all,
    problem: kept?.problem ?? (asked.error && !api.embedded ? asked.error.message : ""),
    where: api.embedded ? "" : (kept?.where ?? ""),
    inLink: isInLink,
    save: async (note) => {
      if (api.embedded) return write([...others(note), note]);
      await post({ note: isInLink(note) ? { ...note, id: newId() } : note });
      if (isInLink(note)) write(others(note));
    },
    remove: async (note) => {
      if (isInLink(note)) write(others(note));
      else await post({ delete: note.id, revision: note.revision });
    },
  };
}
