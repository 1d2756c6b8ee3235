/** Where notes are kept: by the server, with the run; in a report, which has none, in the address. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { told, useAnswer } from "../../../api/ask";
import type { TimelineNote, TimelineNotes } from "../../../api/answers";
import { runPath } from "../../../api/client";
import type { ViewProps } from "../../../base/props";
import { newId, notesOf, textOfNotes } from "./notes";

export interface Notes {
  readonly all: readonly TimelineNote[];
  readonly problem: string;
  /** The file that they are kept in; "" where they are kept in the address alone. */
  readonly where: string;
  readonly inLink: (note: TimelineNote) => boolean;
  readonly save: (note: TimelineNote) => Promise<void>;
  readonly remove: (note: TimelineNote) => Promise<void>;
}

export function useNotes({ api, run, params, go }: Pick<ViewProps, "api" | "run" | "params" | "go">): Notes {
  const path = runPath(run, "notes");
  const asked = useAnswer<TimelineNotes>(path);
  const [changed, setChanged] = useState<TimelineNotes | null>(null);
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
  const write = (notes: readonly TimelineNote[]) =>
    go({ params: { notes: notes.length ? textOfNotes(notes) : null } }, { replace: true });
  const post = async (body: object) => {
    try {
      setChanged(await api.post<TimelineNotes>(path, {}, body));
    } catch (error) {
      asked.again();
      throw told(error);
    }
  };
  const isInLink = (note: TimelineNote) => inLink.some(({ id }) => id === note.id);
  const others = (note: TimelineNote) => inLink.filter(({ id }) => id !== note.id);
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
