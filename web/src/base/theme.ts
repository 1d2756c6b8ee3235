/** Light or dark: as the system says, or as the reader chose. */

import { useEffect, useState } from "preact/hooks";

export type Theme = "system" | "light" | "dark";
const KEY = "kinetoscope.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const paper = matchMedia("print");
const listeners = new Set<() => void>();

export function theme(): Theme {
  const kept = recall(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

/** Paper is light. */
export const isDark = (): boolean => !paper.matches && (theme() === "dark" || (theme() === "system" && system.matches));

export function setTheme(to: Theme): void {
  keep(KEY, to === "system" ? "" : to);
  apply();
}

/** Puts the theme on the page; called once before anything is drawn. */
export function apply(): void {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
  for (const each of listeners) each();
}

export function useDark(): boolean {
  const [dark, set] = useState(isDark());
  useEffect(() => {
    const read = () => set(isDark());
    listeners.add(read);
    return () => void listeners.delete(read);
  }, []);
  return dark;
}

/** A setting of this browser; a page in a sandboxed frame or a file may have none. */
export function recall(key: string): string {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

export function keep(key: string, value: string): void {
  try {
    if (value) localStorage.setItem(key, value);
    else localStorage.removeItem(key);
  } catch {
    // Then it holds until the page is left.
  }
}

for (const each of [system, paper]) each.addEventListener("change", apply);
