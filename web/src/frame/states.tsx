/** Waiting, and what went wrong: said on the page, with what to do. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { words } from "../base/text";

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
        <button class="button" onClick={again}>
          Ask again
        </button>
      )}
    </section>
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
