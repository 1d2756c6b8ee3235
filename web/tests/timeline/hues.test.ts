import { expect, test } from "vitest";
import { INK } from "../../src/base/colour";
import { hueColour } from "../../src/draw/timeline/engine/hues";
import { inkOn, luminance } from "../../src/draw/timeline/engine/inks";

const contrast = (one: string, other: string): number => {
  const [high = 0, low = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
};

test.each([
  ["light", false],
  ["dark", true],
] as const)("each hue is told from the ground and carries words, %s", (name, dark) => {
  const colours = Array.from({ length: 255 }, (_, at) => hueColour(at + 1, { dark, kinds: {} }));
  for (const colour of colours) {
    expect(colour).toMatch(/^#[0-9a-f]{6}$/);
    expect(contrast(colour, INK[name].bg)).toBeGreaterThanOrEqual(3);
    expect(contrast(colour, inkOn(colour))).toBeGreaterThanOrEqual(4.5);
  }
  expect(new Set(colours).size).toBeGreaterThanOrEqual(90);
});

test("what has no hue has the neutral colour", () => {
  expect(hueColour(0, { dark: false, kinds: { other: "#abcdef" } })).toBe("#abcdef");
});
