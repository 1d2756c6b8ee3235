import { expect, test } from "vitest";
import { shownAs } from "../src/grid/cells";

const column = (dtype: string, more = {}) => ({
  name: "x",
  dtype,
  unit: "" as const,
  doc: "",
  instant: false,
  ...more,
});

test("a whole number that JavaScript cannot hold is shown to its last digit", () => {
  const shown = shownAs(column("Int64"), { label: "", divisor: 1 });
  expect(shown.text("1623142623460111123")).toBe("1,623,142,623,460,111,123");
});

test("numbers that name something are not grouped", () => {
  expect(shownAs(column("Int64", { name: "thread" }), undefined).text(25738)).toBe("25738");
});

test("what is missing is a dash, in any column", () => {
  for (const dtype of ["Int64", "Float64", "String", "List(Int64)"])
    expect(shownAs(column(dtype), undefined).text(null)).toBe("–");
});

test("a column is in one unit", () => {
  const shown = shownAs(column("Int64", { unit: "ns" }), { label: "ms", divisor: 1e6 });
  expect([shown.unit, shown.text(1_234_567), shown.text(0)]).toEqual(["ms", "1.23", "0"]);
});
