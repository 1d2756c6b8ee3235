/** What is above the picture: search, and what can be done with the range in view. */

import type { RefObject } from "preact";
import { useState } from "preact/hooks";
import { printable } from "../../../base/text";
import { shown } from "../../../base/numbers";
import { Pill } from "../../../frame/popover";
import { type Colouring, COLOURINGS } from "../engine/hues";
import type { Searched } from "./searching";

interface SearchProps {
  readonly search: Searched;
  readonly box: RefObject<HTMLInputElement | null>;
  readonly leave: () => void;
  /** All hits in a list, beside the picture. */
  readonly list: { readonly open: boolean; readonly toggle: () => void };
}

export function Search({ search, box, leave, list }: SearchProps) {
  const { text, found, failed, args, type, find, clear } = search;
  const count = found?.total
    ? `${found.row != null ? `${shown(found.at + 1, "")} of ` : ""}${shown(found.total, "")}`
    : found
      ? "none"
      : "";
  return (
    <div class="tl-search" role="search">
      <input
        ref={box}
        type="search"
        data-testid="timeline-search"
        value={text}
        placeholder={args ? "Names and arguments" : "Search names"}
        aria-label={args ? "Search names and arguments of events" : "Search names of events"}
        data-tip="/ searches; N and P go to the next and previous match"
        onInput={(event) => type(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") find(event.shiftKey ? "previous" : "next");
          else if (event.key === "Escape") clear();
          else return;
          // From here N and P go on, in the picture.
          event.stopPropagation();
          leave();
          event.preventDefault();
        }}
      />
      <output aria-live="polite">{text && (failed || (list.open ? count : ""))}</output>
      {text && (
        <>
          {!failed && count && !list.open && (
            <button
              class="tl-tool"
              aria-label={`${count}: list them`}
              data-tip="All hits in a list (H); arguments can be searched there, too"
              onClick={list.toggle}
            >
              {count} ≡
            </button>
          )}
          <button
            class="tl-tool"
            aria-label="Previous"
            data-tip="P"
            disabled={!found?.total}
            onClick={() => find("previous")}
          >
            ‹
          </button>
          <button class="tl-tool" aria-label="Next" data-tip="N" disabled={!found?.total} onClick={() => find("next")}>
            ›
          </button>
        </>
      )}
    </div>
  );
}

const COLOUR_WORDS: Record<Colouring, string> = {
  kind: "What it is: computation, communication, host work, …",
  name: "The name: repetition and phases are seen. Two names may share a colour.",
  module: "The class of the innermost nn.Module, of device work that of its launch; grey is outside all.",
};

/** What the colours of marks mean. */
export function ColourMenu({
  colouring,
  set,
  embedded,
  path,
  setPath,
  sql,
  dropSql,
}: {
  colouring: Colouring;
  set: (to: Colouring) => void;
  embedded: boolean;
  path: boolean;
  setPath: (on: boolean) => void;
  /** The query whose rows are a lane, "" for none. */
  sql: string;
  dropSql: () => void;
}) {
  return (
    <Pill
      label="Show"
      value={path ? `${colouring}, path` : colouring}
      title="Colour of marks (C), critical path (K)"
      right
    >
      {() => (
        <div class="tl-lanes" role="group" aria-label="Colour of marks, critical path">
          {COLOURINGS.filter((each) => each !== "module" || !embedded).map((each) => (
            <label class="tl-check tl-colouring" key={each}>
              <input type="radio" name="colouring" checked={each === colouring} onChange={() => set(each)} />
              <span>
                colour by {each} <small>{COLOUR_WORDS[each]}</small>
              </span>
            </label>
          ))}
          {sql && (
            <label class="tl-check tl-colouring">
              <input type="checkbox" checked onChange={dropSql} />
              <span>
                query <small>{printable(sql.slice(0, 300))}</small>
              </span>
            </label>
          )}
          {!embedded && (
            <label class="tl-check tl-colouring">
              <input type="checkbox" checked={path} onChange={() => setPath(!path)} />
              <span>
                critical path{" "}
                <small>
                  A lane with what the length of each step follows from, and a line through the other lanes (K).
                </small>
              </span>
            </label>
          )}
        </div>
      )}
    </Pill>
  );
}

interface PerfettoProps {
  /** The server has Perfetto's page itself. */
  readonly own: boolean;
  readonly what: string;
  /** Null in a report, which holds no trace. */
  readonly open: (() => Promise<void>) | null;
  readonly save: () => void;
}

/** What can be taken out: the picture, and the range in view for Perfetto. */
export function Export({ own, what, open, save }: PerfettoProps) {
  const [said, say] = useState("");
  const act = (open: () => Promise<void>, close: () => void) => {
    say("Cutting the trace …");
    open().then(
      () => {
        say("");
        close();
      },
      (error: unknown) => say(error instanceof Error ? error.message : String(error)),
    );
  };
  return (
    <Pill label="Export" value="▾" title="Export: the picture, or the range in view for Perfetto" right>
      {(close) => (
        <div class="tl-perfetto">
          <p>The picture as it stands here.</p>
          <button
            class="button"
            onClick={() => {
              save();
              close();
            }}
          >
            Save PNG
          </button>
          {open && <p />}
          {open && (
            <p>
              {own
                ? `Perfetto opens in a new window with ${what}. Nothing leaves this machine.`
                : `A new window opens ui.perfetto.dev and is handed ${what}: names, arguments and paths of the trace go to that page, which shows them in your browser.`}
            </p>
          )}
          {open && (
            <button class="button" onClick={() => act(open, close)}>
              {own ? "Open in Perfetto" : "Open in Perfetto and hand it over"}
            </button>
          )}
          <p role="status">{said}</p>
        </div>
      )}
    </Pill>
  );
}
