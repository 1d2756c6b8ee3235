import { expect, test } from "vitest";
import { bindingOf, enter, leave } from "../src/base/scopes";

const SOURCES = import.meta.glob<string>("../src/**/*.tsx", { query: "?raw", import: "default", eager: true });

/** From an opening bracket to the one that closes it. */
function inBrackets(text: string, from: number): string {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    if ("([{".includes(text[at] ?? "")) depth++;
    if (")]}".includes(text[at] ?? "") && --depth === 0) return text.slice(from, at + 1);
  }
  return text.slice(from);
}

/** Keys that are brackets as letters of the same length. */
const plain = (text: string): string =>
  text.replace(/"[[\]{}()]"/g, (key) => ({ '"["': '"‹"', '"]"': '"›"', '"{"': '"«"', '"}"': '"»"' })[key] ?? '"·"');

/** The names of the keys in what `useKeys` is given: words, or texts, before what they do. */
const NAMED = /(?:^|[{,\s])(?:"([^"]+)"|(\w+)):\s*(?:\{\s*does:|close\b|\(\)\s*=>)/g;

/** Scope and keys of each component that has some. */
const bound = Object.entries(SOURCES).flatMap(([path, text]) =>
  [...text.matchAll(/(?<!function )useKeys\(/g)].map((call) => {
    const given = inBrackets(plain(text), (call.index ?? 0) + "useKeys".length);
    const scope = /"(page|view|instrument)",?\s*\)$/.exec(given)?.[1] ?? "view";
    const keys = [...given.matchAll(NAMED)].map(([, quoted, word]) => quoted ?? word ?? "");
    return { file: path.replace("../src/", ""), scope, keys: keys.filter((key) => key !== "run") };
  }),
);

test("each key, and whose it is", () => {
  expect(bound.map(({ file, scope, keys }) => `${scope} ${file}: ${keys.join(" ")}`).sort()).toMatchInlineSnapshot(`
    [
      "instrument draw/timeline/instruments/areatable.tsx: » «",
      "instrument frame/help.tsx: Escape ?",
      "page frame/app.tsx: ?",
      "page frame/header.tsx: Shift+D",
      "page frame/nav.tsx: Shift+J Shift+K Escape",
      "view views/timeline.tsx: w s a d f 0 z m r Shift+R / n p c k t h . , > Shift+N j Shift+J ‹ › Escape arrows, Enter space, L, X Shift-arrows, + − drag a label drag Ctrl-drag Shift-drag Ctrl-wheel",
    ]
  `);
});

test("Shift+J goes along an arrow in the timeline, however often the header was drawn since", () => {
  const done: string[] = [];
  const key = (what: string) => ({ does: what, run: () => void done.push(what) });
  const timeline = enter("Timeline", "view", { "Shift+J": key("back along the arrow") });
  const page = enter("Everywhere", "page", { "Shift+J": key("next view") });
  const what = bindingOf("Shift+J");
  if (typeof what === "object") what.run(new Event("keydown") as KeyboardEvent);
  leave(page);
  leave(timeline);
  expect(done).toEqual(["back along the arrow"]);
});
