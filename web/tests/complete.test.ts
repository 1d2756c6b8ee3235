import { expect, test } from "vitest";
import type { SqlTable } from "../src/api/answers";
import { proposals } from "../src/views/complete";

const column = (name: string) => ({ name, dtype: "Int64", unit: "ns" as const, doc: "d", instant: false });
const tables: SqlTable[] = [
  { name: "kernels", doc: "", columns: [column("duration"), column("grid"), column("device")] },
  { name: "ops", doc: "", columns: [column("duration"), column("self_time")] },
];
const words = (text: string) => {
  const caret = text.indexOf("|");
  return proposals(text.replace("|", ""), caret, tables).map(({ word }) => word);
};

test.each([
  ["SELECT d| FROM kernels", ["duration", "device", "DESC", "DISTINCT"]],
  ["SELECT s| FROM kernels", ["SELECT", "sum("]],
  ["SELECT o.s| FROM kernels k JOIN ops o ON 1", ["self_time"]],
  ["SELECT k.| FROM kernels AS k", ["duration", "grid", "device"]],
  ["SELECT * FROM k|", ["kernels"]],
  ["SELECT * FROM ops WHERE duration > 1 GR|", ["GROUP"]],
  ["SELECT * FROM ops WHERE name = 'd|", []],
  ["SELECT * -- d|", []],
  ["SELECT | FROM kernels", []],
  ["SELECT duration| FROM kernels", []],
])("%s", (text, expected) => {
  expect(words(text)).toEqual(expected);
});
