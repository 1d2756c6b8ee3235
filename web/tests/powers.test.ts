import { expect, test } from "vitest";
import { powers, within } from "../src/draw/powers";

test("whole powers of ten, as many as there is room for", () => {
  expect(powers([-1.6, 3.7], 20)).toEqual([-1, 0, 1, 2, 3]);
  expect(powers([-1.6, 3.7], 3)).toEqual([0, 2]);
  expect(powers([0.2, 0.8], 5)).toEqual([]);
});

const whole = { x: [0, 4], y: [8, 15] } as const;

test("a window stays inside of all there is, and as long as it was", () => {
  expect(within(whole, { x: [-1, 1], y: [14, 16] })).toEqual({ x: [0, 2], y: [13, 15] });
  expect(within(whole, { x: [1, 2], y: [9, 10] })).toEqual({ x: [1, 2], y: [9, 10] });
});

test("a window of everything is none, and none is too small", () => {
  expect(within(whole, { x: [-3, 9], y: [0, 20] })).toBeNull();
  expect(within(whole, { x: [1, 1.001], y: [9, 9.001] })).toEqual({ x: [1, 1.2], y: [9, 9.2] });
});
