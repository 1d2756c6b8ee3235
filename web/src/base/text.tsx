/** Text from a trace: untrusted, so it is only ever set as text, with what acts on a reader spelled out. */

import type { ComponentChildren } from "preact";
import { grouped, MISSING, significant } from "./numbers";

// As views/text.py: control characters, what is invisible, what reverses the reading order, halves of surrogate pairs.
const UNSAFE =
  /[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\ud800-\udfff]/gu;

/** `text` with all that could mislead a reader spelled out, as `\x1b` or `\u202e`. */
export const printable = (text: string): string => text.replace(UNSAFE, spelled);

function spelled(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const short = { 9: "\\t", 10: "\\n", 13: "\\r" }[code];
  if (short) return short;
  const hex = code.toString(16);
  return code < 0x100
    ? `\\x${hex.padStart(2, "0")}`
    : code < 0x10000
      ? `\\u${hex.padStart(4, "0")}`
      : `\\U${hex.padStart(8, "0")}`;
}

/** Words of ours: what stands between backquotes is code. */
export function words(text: string): ComponentChildren {
  if (!text.includes("`")) return printable(text);
  return text.split("`").map((part, place) => (place % 2 ? <code>{printable(part)}</code> : printable(part)));
}

/** A value that is no number: lists as their members, structures as JSON. */
export function anything(value: unknown): string {
  if (value == null) return MISSING;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return Number.isInteger(value) ? grouped(value) : significant(value);
  if (Array.isArray(value)) return `[${value.map(anything).join(", ")}]`;
  return printable(typeof value === "string" ? value : JSON.stringify(value));
}

const TAIL = 18;

/** Where the tails of names begin that end alike, so that what differs is seen: before the first difference. */
export function apart(names: Iterable<string>): Map<string, number> {
  const alike = new Map<string, string[]>();
  for (const name of new Set(names)) {
    const end = name.length > LONG ? name.slice(-TAIL) : name;
    alike.set(end, [...(alike.get(end) ?? []), name]);
  }
  const found = new Map<string, number>();
  for (const group of alike.values()) {
    if (group.length < 2) continue;
    for (const name of group) {
      const shared = Math.max(...group.filter((other) => other !== name).map((other) => sharedBy(name, other)));
      if (shared >= HEAD) found.set(name, Math.min(shared - 3, name.length - TAIL)); // else their beginnings tell
    }
  }
  return found;
}

/** A name cut by `fit`; where another one looks alike then, what comes before their first difference is left out. */
export function toldApart(name: string, other: string, fit: (text: string) => string): string {
  if (name === other || fit(name) !== fit(other)) return fit(name);
  const begin = name.slice(0, sharedBy(name, other)).search(/[^\W_]*$/);
  return fit(`…${name.slice(begin)}`);
}

/** How many letters two names begin with in common. */
function sharedBy(one: string, other: string): number {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  return at;
}

const LONG = 30;
const MOST_TAIL = 24;
/** Letters of the beginning that are seen in any case. */
const HEAD = 8;

/** A name that loses its middle where it does not fit; `from` is where its tail begins. All of it is in the tip. */
export function Name({ text, tip = text, from }: { text: string; tip?: string; from?: number | undefined }) {
  const full = printable(text);
  const split = from ?? (full.length > LONG ? full.length - TAIL : full.length);
  const safe = full.length > split + MOST_TAIL ? `${full.slice(0, split + MOST_TAIL)}…` : full;
  return (
    <span class="name" {...{ [tip === text ? "data-tip-cut" : "data-tip"]: printable(tip) }}>
      <span
        class="name-head"
        style={split < safe.length ? { maxWidth: `calc(100% - ${tailWidth(safe.slice(split))}px)` } : {}}
      >
        {safe.slice(0, split)}
      </span>
      {safe.slice(split)}
    </span>
  );
}

const widths = new Map<string, number>();

function tailWidth(tail: string): number {
  if (widths.size > 20_000) widths.clear();
  let width = widths.get(tail);
  if (width === undefined) widths.set(tail, (width = Math.ceil(measured(tail)) + 1));
  return width;
}

let pen: CanvasRenderingContext2D | null = null;

/** How wide `text` is drawn, in px. */
export function measured(text: string, size = 13, weight = 400): number {
  pen ??= document.createElement("canvas").getContext("2d");
  if (!pen) return text.length * size * 0.6;
  pen.font = `${weight} ${size}px system-ui, sans-serif`;
  return pen.measureText(text).width;
}

/** `text` without its middle, no wider than `width` px. */
export function fitted(text: string, width: number, size = 13, weight = 400): string {
  if (measured(text, size, weight) <= width) return text;
  let low = 0;
  let high = text.length;
  const cut = (kept: number) =>
    `${text.slice(0, Math.ceil(kept / 2))}…${kept > 1 ? text.slice(-Math.floor(kept / 2)) : ""}`;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measured(cut(middle), size, weight) <= width) low = middle;
    else high = middle - 1;
  }
  return low > 0 ? cut(low) : "";
}
