import { expect, test } from "vitest";
import { numbersOf, textOf } from "../src/base/ranges";

test("no text is no number", () => {
  expect([...numbersOf("")]).toEqual([]);
  expect([...numbersOf("0")]).toEqual([0]);
  expect([...numbersOf("0, 8-10,")]).toEqual([0, 8, 9, 10]);
  expect(textOf(numbersOf("25286"))).toBe("25286");
});
