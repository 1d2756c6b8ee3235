/** What is above the picture: search, lanes to fold and pin, and what can be done with the range in view. */

import type { RefObject } from "preact";
import { useState } from "preact/hooks";
import { shown } from "../../base/numbers";
import { printable, words } from "../../base/text";
import { Pill } from "../../frame/popover";
import { type Arrangement, keyOf } from "./layout";
import { type Colouring, COLOURINGS } from "./hues";
import type { Searched } from "./searching";
import type { Lanes } from "./types";

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
}: {
  colouring: Colouring;
  set: (to: Colouring) => void;
  embedded: boolean;
}) {
  return (
    <Pill label="Colour" value={colouring} title="Colour of marks (C)" right>
      {() => (
        <div class="tl-lanes" role="radiogroup" aria-label="Colour of marks">
          {COLOURINGS.filter((each) => each !== "module" || !embedded).map((each) => (
            <label class="tl-check tl-colouring" key={each}>
              <input type="radio" name="colouring" checked={each === colouring} onChange={() => set(each)} />
              <span>
                by {each} <small>{COLOUR_WORDS[each]}</small>
              </span>
            </label>
          ))}
        </div>
      )}
    </Pill>
  );
}

interface LanesProps {
  readonly lanes: Lanes;
  readonly how: Arrangement;
  readonly set: (how: Arrangement) => void;
}

/** Every lane by name, to show and to pin: what the labels do, for the keyboard and for screen readers. */
export function LanesMenu({ lanes, how, set }: LanesProps) {
  const listed = lanes.ranks.reduce(
    (sum, { groups }) => sum + groups.reduce((all, group) => all + group.lanes.length, 0),
    0,
  );
  const count = lanes.ranks.reduce((sum, { more = 0 }) => sum + more, listed);
  const flip = (what: keyof Arrangement, key: string) => {
    const next = new Set(how[what]);
    if (!next.delete(key)) next.add(key);
    set({ ...how, [what]: next });
  };
  return (
    <Pill
      label="Lanes"
      value={listed < count ? `${shown(listed, "")} of ${shown(count, "")}` : `${count}`}
      title="Lanes: open and pinned"
      right
    >
      {() => (
        <div class="tl-lanes">
          {(lanes.notes ?? []).map((note) => (
            <p class="sub" key={note}>
              {words(note)}
            </p>
          ))}
          {lanes.ranks.map(({ rank, groups }) => (
            <fieldset key={rank}>
              {lanes.ranks.length > 1 && (
                <legend>
                  <Check
                    on={!how.folded.has(keyOf.rank(rank))}
                    flip={() => flip("folded", keyOf.rank(rank))}
                    text={`Rank ${rank}`}
                  />
                </legend>
              )}
              {groups.map((group) => (
                <div key={group.id}>
                  {group.lanes.length > 1 && (
                    <Check
                      on={!how.folded.has(keyOf.group(rank, group.id))}
                      flip={() => flip("folded", keyOf.group(rank, group.id))}
                      text={group.title}
                      strong
                    />
                  )}
                  {group.lanes.map((lane) => {
                    const key = keyOf.lane(rank, lane.id);
                    return (
                      <div class="tl-lane" key={lane.id}>
                        {lane.depth > 1 ? (
                          <Check on={!how.folded.has(key)} flip={() => flip("folded", key)} text={lane.title} />
                        ) : (
                          <span class="tl-alone">
                            {printable(
                              group.kind === "device" && group.lanes.length === 1
                                ? `${group.title} · ${lane.title}`
                                : lane.title,
                            )}
                          </span>
                        )}
                        <button
                          class={`tl-tool${how.pinned.has(key) ? " on" : ""}`}
                          aria-pressed={how.pinned.has(key)}
                          onClick={() => flip("pinned", key)}
                        >
                          Pin
                        </button>
                      </div>
                    );
                  })}
                </div>
              ))}
            </fieldset>
          ))}
        </div>
      )}
    </Pill>
  );
}

function Check({ on, flip, text, strong = false }: { on: boolean; flip: () => void; text: string; strong?: boolean }) {
  return (
    <label class={strong ? "tl-check strong" : "tl-check"}>
      <input type="checkbox" checked={on} onChange={flip} />
      {printable(text)}
    </label>
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
