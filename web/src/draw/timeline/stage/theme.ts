/** The colours of the picture, from the page's tokens. */

import { colour } from "../../../base/colour";
import { KINDS } from "../../../base/kinds";
import { mix } from "../engine/inks";
import type { Theme } from "../engine/types";

export function themeOf(element: HTMLElement, dark: boolean): Theme {
  const style = getComputedStyle(element);
  const token = (name: string, otherwise: string) => style.getPropertyValue(name).trim() || otherwise;
  const ground = token("--bg", dark ? "#15171a" : "#fbfbfa");
  const kinds = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, colour(kind, dark)]));
  const host = kinds["host"] ?? "#8a94a6";
  return {
    dark,
    ground,
    panel: token("--panel", dark ? "#1c1f23" : "#ffffff"),
    ink: token("--ink", dark ? "#e8eaed" : "#1a1d21"),
    soft: token("--soft", dark ? "#9aa3ad" : "#5d6570"),
    line: token("--line", dark ? "#2b2f35" : "#e4e5e3"),
    accent: token("--accent", dark ? "#7ab8f5" : "#0b5cad"),
    font: style.fontFamily || "system-ui, sans-serif",
    // What is written about the run, rather than what ran: it must not stand out.
    kinds: { ...kinds, python: host, annotation: mix(host, ground, 0.6), other: mix(host, ground, 0.75) },
  };
}

const WORDS: Record<string, string> = {
  data_loading: "data loading",
  runtime: "runtime call",
  host: "host work",
  python: "Python",
  memory: "memory copy",
};

export const kindWords = (kind: string): string => WORDS[kind] ?? kind.replace(/_/g, " ");
