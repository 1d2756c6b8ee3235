import { expect, test } from "vitest";
import { anything, apart, printable, toldApart } from "../src/base/text";

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

test("names that end alike are parted where they begin to differ", () => {
  const same = "with the same end of forty letters or so";
  const names = [
    `elementwise one ${same}`,
    `elementwise two ${same}`,
    "a name that has an end of its own, surely",
    `other ${same}`,
  ];
  expect([...apart(names)]).toEqual([
    [names[0], 9],
    [names[1], 9],
  ]);
});

test("two runs whose names are cut alike show where they differ", () => {
  const fit = (name: string) => (name.length > 14 ? `${name.slice(0, 7)}…${name.slice(-7)}` : name);
  const [small, large] = ["medium_training_256.pickle", "medium_training_512.pickle"] as const;
  expect(fit(small)).toBe(fit(large));
  expect(toldApart(small, large, fit)).toBe("…256.pickle");
  expect(toldApart(large, small, fit)).toBe("…512.pickle");
  expect(toldApart(small, small, fit)).toBe(fit(small));
  expect(toldApart(small, "", fit)).toBe(fit(small));
});
