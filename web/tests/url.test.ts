import { expect, test } from "vitest";
import { changed, hashOf, parsed, type State } from "../src/base/url";

const STATE: State = {
  run: "a run~1/2",
  view: "memory",
  base: "other~9",
  select: { rank: "3", steps: "3-5,7", time: "10-20", annotation: "a&b=c #1" },
  params: { device: "cuda:0" },
  tables: { "operators0.sort": "-total" },
};

test("the address holds the whole state", () => {
  expect(parsed(hashOf(STATE))).toEqual(STATE);
});

test("a hash that nobody wrote is read without an error", () => {
  expect(parsed("#/%E0%A4%A/x?=&rank&rank=2&__proto__=1")).toMatchObject({
    run: "%E0%A4%A",
    view: "x",
    select: { rank: "2" },
  });
  expect(parsed("")).toMatchObject({ run: "", view: "" });
});

test("another view keeps the selection and forgets what was its own", () => {
  expect(changed(STATE, { view: "kernels" })).toMatchObject({
    select: STATE.select,
    params: {},
    tables: {},
    base: STATE.base,
  });
});

test("another run forgets the selection, because its steps and ranks are others", () => {
  expect(changed(STATE, { run: "b" }).select).toEqual({});
});

test("null takes away", () => {
  expect(changed(STATE, { select: { steps: null } }).select).toEqual({
    rank: "3",
    time: "10-20",
    annotation: "a&b=c #1",
  });
});
