import { expect, test } from "vitest";

const SOURCES = import.meta.glob<string>("../src/**/*.{ts,tsx}", { query: "?raw", import: "default", eager: true });
const TIMELINE = "draw/timeline/";
/** Each room of the timeline imports only from those before it. */
const ROOMS = ["engine", "stage", "beside", "instruments"];

const name = (path: string): string => path.replace("../src/", "").replace(/\.tsx?$/, "");

/** What each file imports of the others, types included. */
const imports = new Map(
  Object.entries(SOURCES).map(([path, text]) => [
    name(path),
    [...text.matchAll(/(?:from|import|import\()\s*"(\.[^"?]*)/g)].map(([, to = ""]) =>
      new URL(to, `file:///${name(path)}`).pathname.slice(1),
    ),
  ]),
);
const known = (from: string): string[] => (imports.get(from) ?? []).filter((to) => imports.has(to));

/** Files that reach themselves. */
function circles(): string[] {
  const reached = (from: string): Set<string> => {
    const found = new Set<string>();
    const open = known(from);
    for (let next = open.pop(); next !== undefined; next = open.pop())
      if (!found.has(next)) {
        found.add(next);
        open.push(...known(next));
      }
    return found;
  };
  return [...imports.keys()].filter((file) => reached(file).has(file));
}

test("no file imports itself, however far around", () => {
  expect(imports.size).toBeGreaterThan(100);
  expect(circles()).toEqual([]);
});

test("imports between the rooms of the timeline go one way", () => {
  const room = (file: string): number => ROOMS.indexOf(file.replace(TIMELINE, "").split("/")[0] ?? "");
  const files = [...imports.keys()].filter((file) => file.startsWith(TIMELINE));
  expect(files.filter((file) => room(file) < 0)).toEqual([]);
  const climbing = files.flatMap((from) =>
    known(from)
      .filter((to) => to.startsWith(TIMELINE) && room(to) > room(from))
      .map((to) => `${from} → ${to}`),
  );
  expect(climbing).toEqual([]);
});

/** Without comments, and what a worker has, too. */
const code = (text: string): string =>
  text.replace(/\/\*[^]*?\*\/|\/\/.*/g, "").replace(/HTMLCanvasElement|signal\.addEventListener/g, "");

test("the engine knows no page: it runs in a worker", () => {
  const pages = Object.entries(SOURCES)
    .filter(([path]) => path.includes(`${TIMELINE}engine/`))
    .filter(([, text]) => /\b(?:window|HTML\w*Element|querySelector|addEventListener|preact)\b/.test(code(text)));
  expect(pages.map(([path]) => name(path))).toEqual([]);
});
