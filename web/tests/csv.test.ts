import { expect, test } from "vitest";
import type { Column } from "../src/api/answers";
import { csv } from "../src/grid/csv";

const column = (name: string): Column => ({ name, dtype: "String", unit: "", doc: "", instant: false });

test("texts that a spreadsheet would run are text", () => {
  const rows = [
    ['=HYPERLINK("x")', -1.5],
    ["@sum", null],
    ["-9007199254740993", 2],
    ["a,b", [1, 2]],
  ];
  expect(csv({ columns: [column("name"), column("=x")], rows })).toBe(
    'name,\'=x\r\n"\'=HYPERLINK(""x"")",-1.5\r\n\'@sum,\r\n-9007199254740993,2\r\n"a,b","[1,2]"\r\n',
  );
});
