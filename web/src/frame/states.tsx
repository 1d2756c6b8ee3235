/** Waiting, and what went wrong: said on the page, with what to do. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { printable, words } from "../base/text";
import { go, parsed, SELECT, type Select } from "../base/url";
import { PARTS } from "./follow";

export function Waiting({ what }: { what: string }) {
  const [late, set] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => set(true), 250);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class="waiting" role="status">
      {late && `${what} …`}
    </div>
  );
}

interface Told {
  readonly message: string;
  readonly hint?: string;
}

export function Failed({ error, title = "", again }: { error: Told; title?: string; again?: () => void }) {
  return (
    <section class="page failed" role="alert">
      <h1>{title ? words(title) : words(error.message)}</h1>
      {title && <p>{words(error.message)}</p>}
      {error.hint && <p class="sub">{words(error.hint)}</p>}
      {again && !api.embedded && (
        <div class="row">
          {narrow(parsed(location.hash).select) && (
            <button class="button strong" onClick={showAll}>
              Show all
            </button>
          )}
          <button class="button" onClick={again}>
            Ask again
          </button>
        </div>
      )}
    </section>
  );
}

/** That the file is damaged, before anything that is taken from it; behind it what was found wrong. */
export function Damage({ said, more }: { said: string; more: readonly string[] }) {
  return (
    <section class="damage" role="alert">
      <details>
        <summary>{words(said)}</summary>
        {more.map((each) => (
          <p key={each}>{printable(each)}</p>
        ))}
      </details>
    </section>
  );
}

const narrow = (select: Select): boolean => SELECT.some((key) => key !== "steps_by" && !!select[key]);

const showAll = (): void => go({ select: Object.fromEntries(SELECT.map((key) => [key, null])) });

/** That only a part is looked at, with the way back: what is not in it is not missing. */
export function Narrowed({ select }: { select: Select }) {
  const parts = PARTS.filter((key) => select[key] && !(key === "steps" && ["all", "steady"].includes(select[key])));
  if (!parts.length || api.embedded) return null;
  const said = parts.map((key) => (key === "time" ? "a range of time" : `${key} ${printable(select[key] ?? "")}`));
  return (
    <p class="narrowed">
      Only {said.join(", ")}.{" "}
      <button class="link" onClick={() => go({ select: Object.fromEntries(parts.map((key) => [key, null])) })}>
        Show all
      </button>
    </p>
  );
}

/** The same inside a block. */
export function FailedHere({ error, again }: { error: Told; again?: () => void }) {
  return (
    <div class="failed-here" role="alert">
      <b>{words(error.message)}</b> {error.hint && words(error.hint)}{" "}
      {again && (
        <button class="link" onClick={again}>
          Ask again
        </button>
      )}
    </div>
  );
}
