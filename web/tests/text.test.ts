import { expect, test } from "vitest";
import { anything, printable } from "../src/base/text";

test("what acts on a reader is spelled out", () => {
  expect(printable("\x1b[31mred\u202egnp.exe\n")).toBe("\\x1b[31mred\\u202egnp.exe\\n");
  expect(printable("a\u{e0041}\ud800b")).toBe("a\\U000e0041\\ud800b");
});

test("ordinary text of any script stays", () => {
  for (const text of ["void at::native<float, 4>()", "名前 שלום 👩", "<script>alert(1)</script>"])
    expect(printable(text)).toBe(text);
});

test("lists and structures are shown as text", () => {
  expect(anything([[32, 64], ["a\x00"], null, true])).toBe("[[32, 64], [a\\x00], –, yes]");
  expect(anything({ a: 1 })).toBe('{"a":1}');
});
