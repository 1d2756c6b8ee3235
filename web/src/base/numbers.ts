/** Numbers for people: a port of views/numbers.py, held to it by tests/numbers.json. */

import type { Unit } from "../api/blocks";

export const MISSING = "–";
const COMMA = ",";
const TOO_MANY = 1e5;

/** A unit to show numbers in: its label, and how many stored units make one of it. */
export interface Scale {
  readonly label: string;
  readonly divisor: number;
}

const of = (label: string, divisor = 1): Scale => ({ label, divisor });

const SCALES: Readonly<Record<Unit, readonly Scale[]>> = {
  "": [of("")],
  ns: [of("ns"), of("µs", 1e3), of("ms", 1e6), of("s", 1e9)],
  bytes: [of("B"), of("kB", 1e3), of("MB", 1e6), of("GB", 1e9), of("TB", 1e12)],
  "bytes/s": [of("B/s"), of("kB/s", 1e3), of("MB/s", 1e6), of("GB/s", 1e9), of("TB/s", 1e12)],
  flop: [of("FLOP"), of("kFLOP", 1e3), of("MFLOP", 1e6), of("GFLOP", 1e9), of("TFLOP", 1e12)],
  "flop/s": [of("FLOP/s"), of("MFLOP/s", 1e6), of("GFLOP/s", 1e9), of("TFLOP/s", 1e12)],
  fraction: [of("%", 0.01)],
};

type Value = number | null | undefined;

/** The scale in which a column of `values` reads best. */
export function scale(values: readonly Value[], unit: Unit): Scale {
  const scales = SCALES[unit] ?? SCALES[""];
  const first = scales[0] as Scale;
  const sizes = values
    .filter((value): value is number => value != null && Number.isFinite(value) && value !== 0)
    .map(Math.abs)
    .sort((a, b) => a - b);
  const largest = sizes[sizes.length - 1];
  if (scales.length === 1 || largest === undefined) return first;
  const typical = Math.sqrt(largest * (sizes[Math.floor(sizes.length / 2)] as number));
  let place = Math.max(0, scales.filter((each) => each.divisor <= typical * (1 + 1e-9)).length - 1);
  while (largest / (scales[place] as Scale).divisor >= TOO_MANY && place + 1 < scales.length) place += 1;
  return scales[place] as Scale;
}

/** `value`, in stored units, as a number of this scale, without the label. */
export function inScale(by: Scale, value: Value): string {
  if (value == null || Number.isNaN(value)) return MISSING;
  return by.divisor === 1 && Number.isInteger(value) ? grouped(value) : significant(value / by.divisor);
}

/** `value` with the label: `12.3 ms`, `42.3%`. */
export function withUnit(by: Scale, value: Value): string {
  const number = inScale(by, value);
  if (number === MISSING || !by.label) return number;
  return number + (by.label === "%" ? "%" : `\u00a0${by.label}`);
}

/** One number with the unit that suits it. */
export const shown = (value: Value, unit: Unit): string => withUnit(scale([value], unit), value);

/** A change with its sign and unit: `+1.28 ms`. */
export const signed = (value: number, unit: Unit): string => sign(value) + shown(Math.abs(value), unit);

export const sign = (value: number): string => (value > 0 ? "+" : value < 0 ? "−" : "±");

/** A place on the time axis: to the microsecond, so that rows which follow each other closely can be told apart. */
export function instant(by: Scale, value: Value): string {
  if (value == null) return MISSING;
  const decimals = { 1e3: 3, 1e6: 3, 1e9: 6 }[by.divisor as 1e3] ?? 0;
  const [whole, rest] = (Math.abs(value) / by.divisor).toFixed(decimals).split(".");
  return (value < 0 ? "-" : "") + thousands(whole as string) + (rest ? `.${rest}` : "");
}

/** An integer with commas between thousands. */
export const grouped = (value: number): string =>
  (value < 0 ? "-" : "") + thousands(Math.abs(value).toLocaleString("en", { useGrouping: false }));

const thousands = (digits: string): string => digits.replace(/\B(?=(\d{3})+$)/g, COMMA);

/** Three significant digits, never an exponent; what is smaller than 0.001 only says so. */
export function significant(value: number): string {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  const size = Math.abs(value);
  if (size < 0.001) return value > 0 ? "<0.001" : ">-0.001";
  if (size >= 999.5) return grouped(Math.sign(value) * halfToEven(size));
  const rounded = threeDigits(value);
  return rounded.toFixed(2 - Math.floor(Math.log10(Math.abs(rounded))));
}

function halfToEven(size: number): number {
  const below = Math.floor(size);
  const rest = size - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
}

/** JavaScript rounds a tie away from zero, Python to the even digit. */
function threeDigits(value: number): number {
  const [digits, exponent] = value.toExponential(50).split("e") as [string, string];
  const [, kept, rest] = /^(-?\d\.\d\d)(\d*)$/.exec(digits) as unknown as [string, string, string];
  const tie = /^50*$/.test(rest) && Number(kept.slice(-1)) % 2 === 0;
  return tie ? Number(`${kept}e${exponent}`) : Number(value.toExponential(2));
}
