/** Answers inside a report: one file, no server. Rows that it keeps can still be sorted and searched. */

import { queryOf, replaceHash } from "../base/url";
import { ApiError, pairs, type Query, type Transport } from "./transport";
import { arranged } from "./arranged";
import { parent } from "./parent";
import type { Page } from "./blocks";
import type { TableAnswer } from "./answers";

interface Report {
  readonly hash: string;
  /** Who answers, if not the report itself. */
  readonly ask?: "parent";
  readonly answers: Readonly<Record<string, unknown>>;
}

const AS_WRITTEN = "This report keeps this page as it was written; `kinetoscope view` shows it with other parameters.";

const WINDOW = ["offset", "limit", "sort", "search"];

export function embedded(): Transport | null {
  const text = document.getElementById("kinetoscope-report")?.textContent;
  if (!text) return null;
  const report = JSON.parse(text) as Report;
  if (!location.hash) replaceHash(report.hash);
  if (report.ask === "parent") return parent();
  const missing = () => new ApiError("This is not in this report.", "`kinetoscope view` shows it.", 404);
  const found = (path: string, query: Query) => report.answers[`GET ${path}${queryOf(pairs(query))}`];
  return {
    embedded: true,
    json: async (path, query) => {
      const exact = found(path, query);
      if (exact !== undefined) return exact;
      if (query["limit"] === undefined) {
        const usual = Object.fromEntries(Object.entries(query).filter(([key]) => !key.startsWith("p.")));
        const page = found(path, usual) as Page | undefined;
        if (!page?.blocks) throw missing();
        return { ...page, cannot: [...page.cannot, AS_WRITTEN] };
      }
      const kept = tableOf(report.answers, path, query);
      if (!kept) throw missing();
      return arranged(kept, query);
    },
    post: async () => {
      throw missing();
    },
    bytes: async (path, query) => {
      const kept = found(path, query) as { base64?: string } | undefined;
      if (!kept?.base64) throw missing();
      return Uint8Array.from(atob(kept.base64), (letter) => letter.charCodeAt(0)).buffer;
    },
    holds: (path) => Object.keys(report.answers).some((key) => key.startsWith(`GET ${path}`)),
    href: () => "",
  };
}

/** The answer to the same question with any window of rows: the report keeps one. */
function tableOf(answers: Report["answers"], path: string, query: Query): TableAnswer | undefined {
  const same = (pairs: readonly (readonly [string, string])[]) =>
    queryOf(pairs.filter(([key]) => !WINDOW.includes(key)));
  const wanted = same(pairs(query));
  const start = `GET ${path}`;
  for (const [key, answer] of Object.entries(answers)) {
    const [left, right = ""] = key.split("?", 2);
    if (left === start && same([...new URLSearchParams(right)]) === wanted) return answer as TableAnswer;
  }
  return undefined;
}
