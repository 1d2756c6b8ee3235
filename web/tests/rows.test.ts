import { expect, test } from "vitest";
import { numbersOf, textOf, timeRangeOf, timeRangeText } from "../src/base/ranges";
import { linkOf, usualPlaces } from "../src/blocks/rowlinks";
import type { TableAnswer } from "../src/api/answers";

test("ranges of numbers as text, both ways", () => {
  expect([...numbersOf("0,8-11")]).toEqual([0, 8, 9, 10, 11]);
  expect(textOf([3, 1, 2, 7])).toBe("1-3,7");
  expect(textOf([])).toBe("");
});

test("a time range is exact both ways; old links are understood", () => {
  expect(timeRangeText(10_000_000, 20_000_000)).toBe("10ms..20ms");
  expect(timeRangeText(1_203_456, 1_272_000)).toBe("1.203456ms..1.272ms");
  expect(timeRangeText(-5, 900)).toBe("-5ns..900ns");
  for (const range of [
    [0, 7],
    [-1_500, 12_345_678_901],
    [999, 1_000_001],
  ] as [number, number][])
    expect(timeRangeOf(timeRangeText(...range))).toEqual(range);
  expect(timeRangeOf("1000-2000")).toEqual([1000, 2000]);
  expect(timeRangeOf("30us..1.5ms")).toEqual([30_000, 1_500_000]);
  for (const text of ["", "5", "2ms..1ms", "1..2x", undefined]) expect(timeRangeOf(text)).toBeNull();
});

const column = (name: string, instant = false) => ({ name, dtype: "Int64", unit: "" as const, doc: "", instant });

test("a row leads to its place on the timeline, with room around", () => {
  const head = {
    columns: [column("rank"), column("row"), column("start", true), column("end", true)],
  } as unknown as TableAnswer;
  expect(linkOf([2, 17, 10_000, 20_000], head, usualPlaces(head.columns))).toEqual({
    view: "timeline",
    rank: 2,
    row: 17,
    time: [5000, 25_000],
  });
});

test("instants of a query count by the clock of the file", () => {
  const head = { columns: [column("row"), column("start", true)] } as unknown as TableAnswer;
  const link = linkOf([1, "1623142623460111000"], head, usualPlaces(head.columns), "1623142623460016000");
  expect(link).toMatchObject({ row: 1, time: [45_000, 145_000] });
});

test("a row that tells no place leads nowhere", () => {
  const head = { columns: [column("calls")] } as unknown as TableAnswer;
  expect(linkOf([1], head, usualPlaces(head.columns))).toBeNull();
});
