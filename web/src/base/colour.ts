/** Colour means kind, the same everywhere: names of the tokens in theme.css, and their values for canvas and SVG. */

import { CATEGORIES, KINDS, MEANS } from "./kinds";

/** Of a difference: always drawn with a sign as well. */
const JUDGED: Readonly<Record<string, string>> = {
  better: "memory",
  worse: "waiting",
  faster: "memory",
  slower: "waiting",
};

/** The kind that a name stands for, "" if none. */
export function kindOf(name: string): string {
  const word = wordOf(name);
  return word in KINDS ? word : (JUDGED[word] ?? MEANS[word] ?? "");
}

const wordOf = (name: string): string => name.trim().toLowerCase().replace(/[ -]/g, "_");

/** The colour of a kind, or of a category of memory, as hex; neutral (that of host work) if it is neither. */
export function colour(kind: string, dark: boolean): string {
  const found = (CATEGORIES[wordOf(kind)] ?? KINDS[kindOf(kind) || "host"]) as { light: string; dark: string };
  return dark ? found.dark : found.light;
}

/** A colour between two, as hex: `part` 0 is the first, 1 the other. */
export function blended(one: string, other: string, part: number): string {
  const at = (hex: string, place: number) => parseInt(hex.slice(place, place + 2), 16);
  const mixed = [1, 3, 5].map((place) => Math.round(at(one, place) * (1 - part) + at(other, place) * part));
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

/** Black or white, whichever reads better on `hex`. */
export function inkOn(hex: string): string {
  const [red, green, blue] = [1, 3, 5].map((at) => (parseInt(hex.slice(at, at + 2), 16) / 255) ** 2.2) as [
    number,
    number,
    number,
  ];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.3 ? "#15171a" : "#ffffff";
}

/** What the page is drawn with, for pictures that cannot use CSS. */
export const INK = {
  light: { bg: "#fbfbfa", panel: "#ffffff", ink: "#1a1d21", soft: "#5d6570", line: "#e4e5e3", accent: "#0b5cad" },
  dark: { bg: "#15171a", panel: "#1c1f23", ink: "#e8eaed", soft: "#9aa3ad", line: "#2b2f35", accent: "#7ab8f5" },
} as const;
