import { expect, test } from "vitest";
import type { Unit } from "../src/api/blocks";
import { instant, scale, shown, significant } from "../src/base/numbers";
import cases from "./numbers.json";

test.each(cases.significant as [number, string][])("significant(%d) is %s", (value, text) => {
  expect(significant(value)).toBe(text);
});

test.each(cases.shown as [number, Unit, string][])("shown(%d, %j) is %s", (value, unit, text) => {
  expect(shown(value, unit)).toBe(text);
});

test.each(cases.scale as [(number | null)[], Unit, object][])("scale(%j, %j)", (values, unit, found) => {
  expect(scale(values, unit)).toEqual(found);
});

test("an instant keeps its microseconds", () => {
  expect(instant({ label: "ms", divisor: 1e6 }, 1234567890)).toBe("1,234.568");
  expect(instant({ label: "ns", divisor: 1 }, -5)).toBe("-5");
});
