import { afterEach, expect, test } from "vitest";
import { bindingOf, type Bound, enter, type Keys, leave, listed, type Scope } from "../src/base/scopes";

const entered: Bound[] = [];

function bind(scope: Scope, ...does: string[]): [Bound, Keys] {
  const keys = Object.fromEntries(does.map((key) => [key, { does: `${scope} ${key}`, run: () => undefined }]));
  const bound = enter(scope, scope, keys);
  entered.push(bound);
  return [bound, keys];
}

afterEach(() => entered.splice(0).forEach(leave));

test("the keys of a view beat those of the page, whatever was bound last", () => {
  const [, first] = bind("page", "Shift+J");
  const [, view] = bind("view", "Shift+J");
  bind("page", "Shift+J", "q");
  expect(bindingOf("Shift+J")).toBe(view["Shift+J"]);
  const [dialog, inner] = bind("instrument", "Shift+J");
  bind("view", "w");
  expect(bindingOf("Shift+J")).toBe(inner["Shift+J"]);
  leave(entered.splice(entered.indexOf(dialog), 1)[0]!);
  expect(bindingOf("Shift+J")).toBe(view["Shift+J"]);
  expect(bindingOf("Shift+J")).not.toBe(first["Shift+J"]);
});

test("of one scope the one that came last holds, drawn again or not", () => {
  const [outer] = bind("view", "f");
  const [, inner] = bind("view", "f");
  const again: Keys = { f: () => undefined };
  outer.keys = again;
  expect(bindingOf("f")).toBe(inner["f"]);
  expect(bindingOf("F")).toBe(inner["f"]);
  expect(bindingOf("x")).toBeUndefined();
  expect(listed()).toEqual([{ title: "view", keys: [["f", "view f"]] }]);
});
