/** The notes of the run, beside the picture: a list to go through, and the one that is being written. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { TimelineNote } from "../../../api/answers";
import { copyText } from "../../../base/copy";
import { shown } from "../../../base/numbers";
import { printable, words } from "../../../base/text";
import type { Notes } from "./notekeeping";
import { COLOURS, colourOf, type NoteColour, textOfNotes } from "./notes";
import { instant } from "../engine/ruler";

interface Props {
  readonly notes: Notes;
  readonly dark: boolean;
  readonly embedded: boolean;
  /** Several ranks are drawn: each note says of which it is. */
  readonly several: boolean;
  /** The note that is being written. */
  readonly draft: TimelineNote | null;
  readonly setDraft: (note: TimelineNote | null) => void;
  readonly current: string;
  readonly open: (note: TimelineNote) => void;
  /** Begins a note on what is selected. */
  readonly add: () => void;
}

export function NoteList({ notes, dark, embedded, several, draft, setDraft, current, open, add }: Props) {
  const [failed, fail] = useState("");
  const [deleted, setDeleted] = useState<TimelineNote | null>(null);
  const [copied, setCopied] = useState("");
  const act = (work: Promise<void>, done: () => void) =>
    void work.then(
      () => {
        fail("");
        done();
      },
      (error: unknown) => fail(error instanceof Error ? error.message : String(error)),
    );
  const link = async () => {
    const address = new URL(location.href);
    const [path, query = ""] = address.hash.split("?", 2);
    const pairs = new URLSearchParams(query);
    pairs.set("p.notes", textOfNotes(notes.all));
    address.hash = `${path}?${pairs}`;
    setCopied((await copyText(address.href)) ? "Copied." : "The browser does not let the page copy.");
  };
  const writing = draft && !notes.all.some(({ id }) => id === draft.id);
  const edit = (note: TimelineNote) => (
    <Editor
      key={note.id}
      note={note}
      dark={dark}
      save={(changed) => act(notes.save(changed), () => setDraft(null))}
      cancel={() => setDraft(null)}
    />
  );
  return (
    <div class="tl-notelist">
      {notes.problem && <p class="tl-trouble">{words(notes.problem)}</p>}
      {failed && (
        <p class="tl-trouble" role="alert">
          {words(failed)}
        </p>
      )}
      {deleted && (
        <p role="status">
          Deleted.{" "}
          <button class="link" onClick={() => act(notes.save({ ...deleted, revision: 0 }), () => setDeleted(null))}>
            Undo
          </button>
        </p>
      )}
      {writing && edit(draft)}
      {!notes.all.length && !draft && (
        <p>
          No notes yet. <kbd>T</kbd> writes one on the selected event, on the selected range, or at the pointer.
        </p>
      )}
      <ol>
        {notes.all.map((note) =>
          draft?.id === note.id ? (
            <li key={note.id}>{edit(draft)}</li>
          ) : (
            <li key={note.id} class={note.id === current ? "current" : ""}>
              <button class="tl-note" aria-current={note.id === current} onClick={() => open(note)}>
                <i style={{ background: colourOf(note.colour, dark) }} aria-hidden="true" />
                <small>
                  {instant(note.start, 1000)}
                  {note.end > note.start ? `, ${shown(note.end - note.start, "ns")}` : ""}
                  {several ? ` · rank ${note.rank}` : ""}
                  {notes.inLink(note) ? " · of the link" : ""}
                </small>
                <span>{printable(note.text)}</span>
              </button>
              {(!embedded || notes.inLink(note)) && (
                <span class="tl-note-tools">
                  {notes.inLink(note) && !embedded && (
                    <button class="link" onClick={() => act(notes.save(note), () => undefined)}>
                      Keep
                    </button>
                  )}
                  <button class="link" onClick={() => setDraft(note)}>
                    Edit
                  </button>
                  <button
                    class="link"
                    onClick={() => act(notes.remove(note), () => setDeleted(notes.inLink(note) ? null : note))}
                  >
                    Delete
                  </button>
                </span>
              )}
            </li>
          ),
        )}
      </ol>
      <p class="tl-alike">
        <button class="tl-tool" data-tip="T" onClick={add}>
          Write a note
        </button>
        {notes.all.length > 0 && (
          <button
            class="tl-tool"
            data-tip="For a colleague with the same trace: the notes are in the address"
            onClick={() => void link()}
          >
            Copy link with notes
          </button>
        )}
        <span role="status">{copied}</span>
      </p>
      <p class="soft">
        {notes.where
          ? `Kept in ${printable(notes.where)}.`
          : embedded
            ? "New notes are kept in the address: copy the link."
            : ""}
      </p>
    </div>
  );
}

interface EditorProps {
  readonly note: TimelineNote;
  readonly dark: boolean;
  readonly save: (note: TimelineNote) => void;
  readonly cancel: () => void;
}

function Editor({ note, dark, save, cancel }: EditorProps) {
  const [text, setText] = useState(note.text);
  const [colour, setColour] = useState<NoteColour>(note.colour);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current?.focus(), []);
  const keep = () => text.trim() && save({ ...note, text: text.trim(), colour });
  return (
    <form
      class="tl-editor-form"
      onSubmit={(event) => (event.preventDefault(), keep())}
      onKeyDown={(event) => {
        if (event.key === "Escape") cancel();
        else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) keep();
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <label>
        <small>
          {instant(note.start, 1000)}
          {note.end > note.start ? `, ${shown(note.end - note.start, "ns")}` : ""}
        </small>
        <textarea
          ref={area}
          rows={3}
          maxLength={2000}
          aria-label="Text of the note"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <div class="row" role="radiogroup" aria-label="Colour">
        {COLOURS.map((each) => (
          <label key={each} class="tl-ink" data-tip={each}>
            <input
              type="radio"
              name="colour"
              checked={each === colour}
              aria-label={each}
              onChange={() => setColour(each)}
            />
            <i style={{ background: colourOf(each, dark) }} />
          </label>
        ))}
        <button class="button strong" disabled={!text.trim()} data-tip="Ctrl-Enter">
          Save
        </button>
        <button type="button" class="button" onClick={cancel}>
          Cancel
        </button>
      </div>
    </form>
  );
}
