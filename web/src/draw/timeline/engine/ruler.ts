/** Instants and durations in words, and where the ruler has its ticks. */

const UNITS: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

function unitOf(ns: number): [number, string] {
  return UNITS.find(([size]) => ns >= size * 0.9995) ?? [1, "ns"];
}

export interface Tick {
  at: number;
  text: string;
}

/** The next of 1, 2, 5, 10, 20, … that is not below `least`. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  for (const factor of [1, 2, 5, 10]) if (factor * power >= least * 0.999999) return factor * power;
  return power * 10;
}

/** Round instants in [start, end), at least `least` ns apart, counted from `origin`; one unit for all. */
export function ticks(start: number, end: number, least: number, origin: number): Tick[] {
  const apart = niceStep(least);
  const reach = Math.max(Math.abs(start - origin), Math.abs(end - origin), apart);
  const [size, unit] = unitOf(reach);
  const digits = Math.min(9, Math.max(0, Math.ceil(Math.log10(size / apart) - 1e-9)));
  const found: Tick[] = [];
  const first = Math.ceil((start - origin) / apart);
  const last = Math.min(first + 200, Math.floor((end - origin) / apart));
  for (let k = first; k <= last; k++) {
    const value = (k * apart) / size;
    const text = k === 0 ? "0" : grouped(value.toFixed(digits));
    found.push({ at: origin + k * apart, text: `${text.replace("-", "−")}\u202f${unit}` });
  }
  return found;
}

/** An instant, as fine as `apart` ns. */
export function instant(time: number, apart: number): string {
  const [size, unit] = unitOf(Math.max(Math.abs(time), apart));
  const digits = Math.min(9, Math.max(0, Math.ceil(Math.log10(size / Math.max(1, apart)) - 1e-9)));
  return `${grouped((time / size).toFixed(digits)).replace("-", "−")}\u202f${unit}`;
}

/** Digits after the point in threes: 1.234 567. */
function grouped(text: string): string {
  const [whole = "", rest = ""] = text.split(".");
  return rest.length > 3 ? `${whole}.${rest.replace(/(\d{3})(?=\d)/g, "$1\u2009")}` : text;
}
