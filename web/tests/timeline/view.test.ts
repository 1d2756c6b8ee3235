import { expect, test } from "vitest";
import { clamp, eased, fitted, limits, panned, shown, stepBeside, zoomed } from "../../src/draw/timeline/engine/view";

const whole = { start: 0, end: 1e9 };

test("zooming keeps the instant beneath the pointer", () => {
  const view = { start: 2e8, end: 4e8 };
  for (const share of [0, 0.25, 1]) {
    const at = view.start + share * 2e8;
    const zoom = zoomed(view, at, 0.5, whole);
    expect(zoom.end - zoom.start).toBeCloseTo(1e8);
    expect((at - zoom.start) / (zoom.end - zoom.start)).toBeCloseTo(share);
  }
});

test("no window leaves the run or gets too narrow", () => {
  expect(zoomed(whole, 5e8, 100, whole)).toEqual(limits(whole));
  const least = zoomed(whole, 5e8, 1e-12, whole);
  expect(least.end - least.start).toBeCloseTo(50);
  expect(panned({ start: 0, end: 1e8 }, -1e12, whole).start).toBe(limits(whole).start);
  expect(panned({ start: 0, end: 1e8 }, 1e12, whole).end).toBe(limits(whole).end);
  expect(clamp({ start: NaN, end: NaN }, whole)).toEqual(limits(whole));
  expect(clamp({ start: 9, end: 3 }, whole).end).toBeGreaterThan(clamp({ start: 9, end: 3 }, whole).start);
});

test("a mark in sight moves nothing, one beyond comes to the middle, a hair is zoomed to", () => {
  const view = { start: 0, end: 1e8 };
  expect(shown(view, { start: 1e7, end: 2e7 }, whole)).toBe(view);
  const moved = shown(view, { start: 5e8, end: 5.1e8 }, whole);
  expect((moved.start + moved.end) / 2).toBeCloseTo(5.05e8);
  const near = shown(view, { start: 5e8, end: 5e8 + 100 }, whole);
  expect(near.end - near.start).toBeLessThan(1e4);
  expect(fitted({ start: 4e8, end: 5e8 }, whole, 0.1)).toEqual({ start: 3.9e8, end: 5.1e8 });
});

test("easing comes to rest on the target", () => {
  let view = { start: 0, end: 1e9 };
  const target = { start: 5e8, end: 6e8 };
  let frames = 0;
  while (view !== target && frames++ < 100) view = eased(view, target, 16);
  expect(view).toBe(target);
  expect(frames).toBeLessThan(60);
});

test("steps before and after", () => {
  const steps = [1, 2, 3].map((step) => ({ step, start: step * 100, end: step * 100 + 90 }));
  expect(stepBeside(steps, { start: 200, end: 290 }, 1)?.step).toBe(3);
  expect(stepBeside(steps, { start: 200, end: 290 }, -1)?.step).toBe(1);
  expect(stepBeside(steps, { start: 192, end: 198 }, 1)?.step).toBe(2);
  expect(stepBeside(steps, { start: 0, end: 10 }, -1)?.step).toBe(1);
  expect(stepBeside(steps, { start: 900, end: 910 }, 1)?.step).toBe(3);
  expect(stepBeside([], { start: 0, end: 1 }, 1)).toBeNull();
});
