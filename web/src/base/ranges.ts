/** Ranges as text, as the command line takes them: numbers `0,8-15`, times `10ms..20ms` (model/steps/grammar.py). */

export function numbersOf(text: string): Set<number> {
  const found = new Set<number>();
  for (const part of text.split(",").filter((each) => each.trim())) {
    const [from, to = from] = part.split("-").map(Number) as [number, number?];
    if (Number.isInteger(from) && Number.isInteger(to))
      for (let each = from; each <= (to as number) && found.size < 1e5; each += 1) found.add(each);
  }
  return found;
}

export function textOf(numbers: Iterable<number>): string {
  const parts: string[] = [];
  let from: number | null = null;
  let last = NaN;
  const close = () => from !== null && parts.push(from === last ? `${from}` : `${from}-${last}`);
  for (const each of [...numbers].sort((a, b) => a - b)) {
    if (each !== last + 1) {
      close();
      from = each;
    }
    last = each;
  }
  close();
  return parts.join(",");
}

export const few = (text: string): string =>
  (text.length > 14 ? `${text.slice(0, 12)}…` : text).replaceAll("-", "–").replaceAll(",", ", ");

const TIME_UNITS: Readonly<Record<string, number>> = { "": 1, ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9 };

/** Start and end in ns of a time range, null where the text is none; old links write whole numbers: `1000-2000`. */
export function timeRangeOf(text: string | undefined): [number, number] | null {
  const old = /^(-?\d+)-(-?\d+)$/.exec(text ?? "");
  const parts = old ? [old[1], old[2]] : (text ?? "").split("..");
  const [start = NaN, end = NaN] = parts.map((part) => {
    const [, number, unit] = /^(-?\d+(?:\.\d+)?)([a-zµ]*)$/.exec(part ?? "") ?? [];
    return Math.round(Number(number) * (TIME_UNITS[unit ?? ""] ?? NaN));
  });
  return parts.length === 2 && end > start ? [start, end] : null;
}

/** A time range as text, exact to the nanosecond. */
export function timeRangeText(start: number, end: number): string {
  const [from, to] = [Math.round(start), Math.round(end)];
  const [unit, digits] = Math.abs(to) >= 1e6 ? ["ms", 6] : Math.abs(to) >= 1e3 ? ["us", 3] : ["ns", 0];
  const decimal = (value: number) => {
    const rest = String(Math.abs(value) % 10 ** digits)
      .padStart(digits, "0")
      .replace(/0+$/, "");
    const whole = Math.floor(Math.abs(value) / 10 ** digits);
    return `${value < 0 ? "-" : ""}${whole}${digits && rest ? `.${rest}` : ""}`;
  };
  return `${decimal(from)}${unit}..${decimal(to)}${unit}`;
}
