/** Ranges of numbers as text: `0,8-15`. */

export function numbersOf(text: string): Set<number> {
  const found = new Set<number>();
  for (const part of text.split(",")) {
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
