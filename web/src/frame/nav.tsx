/** The views. */

import { api, runPath } from "../api/client";
import type { PageName, ServerInfo } from "../api/answers";
import { useKeys } from "../base/keyboard";
import { changed, go, hashOf, type State } from "../base/url";

const USUAL: readonly PageName[] = [
  ["overview", "Overview"],
  ["findings", "What to change"],
  ["timeline", "Timeline"],
  ["operators", "Operators"],
  ["kernels", "Kernels"],
  ["modules", "Modules"],
  ["efficiency", "Device efficiency"],
  ["memory", "Memory"],
  ["idle", "Idle & launches"],
  ["critical_path", "Critical path"],
  ["serving", "Serving"],
  ["distributed", "Distributed"],
  ["sources", "Sources"],
  ["compare", "Compare"],
  ["ledger", "Ledger"],
  ["analyses", "All analyses"],
  ["sql", "SQL"],
].map(([name = "", title = ""]) => ({ name, title, ranks: "one", recorded: false, always: true }));

/** Views of one run first; those that stand apart come after a line. */
const APART = ["compare", "ledger", "analyses", "sql"];

export const pagesOf = (server: ServerInfo | undefined): readonly PageName[] =>
  server?.pages.length ? server.pages : USUAL;

/** What a view asks first: a report without the answer does not list the view. */
function askedBy(run: string, view: string): string {
  if (view === "analyses") return "analyses";
  if (view === "timeline") return runPath(run, "timeline", "lanes");
  return view === "sql" ? runPath(run, "sql") : runPath(run, "pages", view);
}

export function Nav({
  state,
  pages,
  views,
  open,
  close,
}: {
  state: State;
  pages: readonly PageName[];
  /** Those that there is something to see in, of a run that is known. */
  views: readonly string[] | undefined;
  open: boolean;
  close: () => void;
}) {
  const shown = pages.filter(
    ({ name, always }) =>
      api.holds(askedBy(state.run, name)) && (name === state.view || (views ? views.includes(name) : always)),
  );
  const step = (by: number) => {
    const at = shown.findIndex((page) => page.name === state.view);
    const next = shown[(at + by + shown.length) % shown.length];
    if (next) go({ view: next.name });
  };
  useKeys(
    {
      "Shift+J": { does: "next view", run: () => step(1) },
      "Shift+K": { does: "previous view", run: () => step(-1) },
      ...(open ? { Escape: close } : {}),
    },
    "Everywhere",
    "page",
  );
  const item = (page: PageName) => (
    <li key={page.name}>
      <a
        href={hashOf(changed(state, { view: page.name }))}
        aria-current={page.name === state.view ? "page" : undefined}
        onClick={close}
      >
        {page.title}
      </a>
    </li>
  );
  return (
    <>
      {open && <div class="veil" onClick={close} />}
      <nav class={open ? "open" : ""} aria-label="Views">
        <ul>{shown.filter((page) => !APART.includes(page.name)).map(item)}</ul>
        {shown.some((page) => APART.includes(page.name)) && <hr />}
        <ul>{shown.filter((page) => APART.includes(page.name)).map(item)}</ul>
      </nav>
    </>
  );
}
