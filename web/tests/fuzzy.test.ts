import { expect, test } from "vitest";
import { fits } from "../src/base/fuzzy";

const best = (typed: string, ...texts: string[]) =>
  texts
    .map((text) => [fits(typed, text), text] as const)
    .filter(([score]) => score > 0)
    .sort(([a], [b]) => b - a)
    .map(([, text]) => text);

test("beginnings of words before insides, insides before scattered letters, initials before insides", () => {
  expect(best("mem", "Summer elms", "Hidden member", "Memory", "somemore")).toEqual([
    "Memory",
    "Hidden member",
    "somemore",
    "Summer elms",
  ]);
  expect(best("cp", "Critical path", "scp")).toEqual(["Critical path", "scp"]);
});

test("every word must be there, in any order", () => {
  expect(best("path crit", "Critical path", "Critical section")).toEqual(["Critical path"]);
  expect(best("aten::mm", "aten::mm", "aten::addmm")[0]).toBe("aten::mm");
  expect(fits("(a", "f(a, b)")).toBeGreaterThan(0);
  expect(fits("xyz", "aten::mm")).toBe(0);
});
