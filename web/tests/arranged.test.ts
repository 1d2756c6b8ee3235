import { expect, test } from "vitest";
import { arranged } from "../src/api/arranged";
import type { TableAnswer } from "../src/api/answers";

const ANSWER: TableAnswer = {
  analysis: "",
  params: {},
  ranks: null,
  short: {},
  columns: [
    { name: "name", dtype: "String", unit: "", doc: "", instant: false },
    { name: "time", dtype: "Int64", unit: "ns", doc: "", instant: false },
  ],
  rows: [
    ["b", 2],
    ["a", null],
    ["C", 10],
  ],
  total: 3,
  all: 3,
  notes: [],
  scales: {},
};
const names = (answer: TableAnswer) => answer.rows.map(([name]) => name).join("");

test("what is missing comes last in either direction", () => {
  expect(names(arranged(ANSWER, { sort: "time", limit: 9 }))).toBe("bCa");
  expect(names(arranged(ANSWER, { sort: "-time", limit: 9 }))).toBe("Cba");
});

test("search ignores case and counts what it finds", () => {
  expect(arranged(ANSWER, { search: "c", limit: 9 })).toMatchObject({ rows: [["C", 10]], total: 1, all: 3 });
});

test("a search that is a filter compares numbers", () => {
  expect(names(arranged(ANSWER, { search: "time:gt:2", limit: 9 }))).toBe("C");
  expect(names(arranged(ANSWER, { search: "time:le:2", limit: 9 }))).toBe("b");
});

test("a window of rows", () => {
  expect(names(arranged(ANSWER, { offset: 1, limit: 1 }))).toBe("a");
});

test("rows that a report left out are said", () => {
  expect(arranged({ ...ANSWER, total: 50, all: 50 }, { limit: 9 }).notes).toEqual(["This report keeps 3 of 50 rows."]);
});
