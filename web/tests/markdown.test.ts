import { expect, test } from "vitest";
import { markdown } from "../src/grid/markdown";

const column = (name: string, dtype: string, unit: "" | "ns" = "") => ({ name, dtype, unit, doc: "", instant: false });

test("columns that are shown, in their units, and nothing that is markup", () => {
  const head = {
    columns: [column("name", "String"), column("count", "Int64"), column("total", "Int64", "ns")],
    rows: [
      ["a|b <i>*x*", 3, 1_500_000],
      ["line\nbreak", null, 20],
    ],
    scales: { total: { label: "ms", divisor: 1_000_000 } },
  };
  expect(markdown(head, ["name", "total"]).split("\n")).toEqual([
    "| name | total (ms) |",
    "| --- | --: |",
    "| a\\|b \\<i\\>\\*x\\* | 1.50 |",
    "| line\\\\nbreak | \\<0.001 |",
    "",
  ]);
});
