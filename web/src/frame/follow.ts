/** Where a link leads: to another view, a place on the timeline, another selection, a line of source. */

import { timeRangeText } from "../base/ranges";
import type { Link } from "../api/blocks";
import type { ServerInfo } from "../api/answers";
import { recall } from "../base/theme";
import { go, hashOf, changed, parsed, type Change } from "../base/url";

/** What of a run is a part of it; its rank is none. */
export const PARTS = [
  "steps",
  "time",
  "device",
  "stream",
  "thread",
  "annotation",
  "name",
  "under",
  "before",
  "after",
] as const;

/** The change of the address that a link means. */
export function changeOf(link: Partial<Link>): Change {
  const select: Record<string, string | null> = {};
  const params: Record<string, string> = { ...link.params };
  if (link.clear) for (const name of PARTS) select[name] = null;
  let view = link.view ?? "";
  if (link.file && !view) view = "sources";
  if (link.file) Object.assign(params, { file: link.file, ...(link.line ? { line: String(link.line) } : {}) });
  if (link.rank != null) Object.assign(select, { rank: String(link.rank), ranks: null });
  if (link.cycle != null) select["cycle"] = String(link.cycle);
  if (link.steps != null) select["steps"] = link.steps;
  if (link.row != null && !view) view = "timeline";
  if (link.row != null) params["row"] = String(link.row);
  if (link.time) {
    const text = timeRangeText(link.time[0], link.time[1]);
    if (view === "timeline") params["in"] = text;
    else select["time"] = text;
  }
  return { ...(view ? { view } : {}), select, params };
}

/** The address of a link, so that it can be opened in another tab. */
export const addressOf = (link: Partial<Link>): string => hashOf(changed(parsed(location.hash), changeOf(link)));

export const follow = (link: Partial<Link>): void => go(changeOf(link));

/** The path here of a file of a trace, as far as prefixes tell. */
function mapped(file: string, server: ServerInfo): string {
  let path = file;
  for (const [from, to] of [...(server.maps ?? []), ...kept()])
    if (path.startsWith(from)) path = to + path.slice(from.length);
  return path;
}

/** An editor finds no file by the end of its path: Python's frames often tell no more. */
export const isWhole = (file: string, server: ServerInfo): boolean =>
  /^(?:[\\/]|[A-Za-z]:[\\/])/.test(mapped(file, server));

/** The address that opens a place in the reader's editor. */
export function editorAddress(file: string, line: number, server: ServerInfo): string {
  const editor = recall("kinetoscope.editor") || server.features.editor || "vscode";
  const path = mapped(file, server);
  const safe = path.split("/").map(encodeURIComponent).join("/");
  if (editor === "pycharm") return `pycharm://open?file=${encodeURIComponent(path)}&line=${line}`;
  return `vscode://file/${safe.replace(/^\//, "")}:${line}`;
}

/** `OLD=NEW` lines of this browser: where files of a trace recorded elsewhere are here. */
function kept(): [string, string][] {
  return recall("kinetoscope.map")
    .split("\n")
    .map((line) => line.split("=", 2))
    .filter((pair): pair is [string, string] => pair.length === 2 && !!pair[0]);
}
