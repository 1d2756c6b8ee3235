/**
 * A tile: the marks of one rank in 1024 units of time, as the server packed them.
 *
 * A unit is 2^z ns. The bytes are: the header's length (uint32), the header (JSON, padded), columns. Marks narrower than
 * a unit have been merged by the server, so a tile holds no more than a screen can show.
 */

import type { TileHeader } from "../../../api/answers";

export const UNITS = 1024;
export const DEEPEST = 51;

type Numbers =
  Float32Array | Float64Array | Int32Array | Uint32Array | Uint16Array | Int16Array | Uint8Array | Int8Array;

const MADE: Record<string, (bytes: ArrayBuffer, at: number, count: number) => Numbers> = {
  float32: (bytes, at, count) => new Float32Array(bytes, at, count),
  float64: (bytes, at, count) => new Float64Array(bytes, at, count),
  int32: (bytes, at, count) => new Int32Array(bytes, at, count),
  uint32: (bytes, at, count) => new Uint32Array(bytes, at, count),
  int16: (bytes, at, count) => new Int16Array(bytes, at, count),
  uint16: (bytes, at, count) => new Uint16Array(bytes, at, count),
  int8: (bytes, at, count) => new Int8Array(bytes, at, count),
  uint8: (bytes, at, count) => new Uint8Array(bytes, at, count),
};

/** Of a lane: `bounds[d]` to `bounds[d + 1]` are the marks of depth d, by start. */
export interface LaneMarks {
  bounds: Int32Array;
}

export interface Tile {
  z: number;
  i: number;
  unit: number;
  /** ns after the first event of the rank's trace. */
  start: number;
  lanes: Map<string, LaneMarks>;
  counters: Map<string, { from: number; to: number }>;
  kinds: readonly string[];
  names: Map<number, string>;
  begin: Numbers;
  end: Numbers;
  row: Numbers;
  count: Numbers;
  kind: Numbers;
  name: Numbers;
  hue: Numbers;
  cover: Numbers | null;
  time: Numbers;
  mean: Numbers;
  max: Numbers;
  bytes: number;
}

const NONE = new Float32Array(0);

/** Where the marks of each depth begin, of those from `from` to `to`, which come by depth. */
export function bounds(depth: Numbers, from: number, to: number): Int32Array {
  const deepest = to > from ? (depth[to - 1] ?? 0) : -1;
  const found = new Int32Array(deepest + 2);
  let mark = from;
  for (let row = 0; row <= deepest; row++) {
    found[row] = mark;
    while (mark < to && (depth[mark] ?? 0) <= row) mark++;
  }
  found[deepest + 1] = to;
  return found;
}

/** Read the bytes of a tile. Throws an Error that says what is wrong with them. */
export function decode(bytes: ArrayBuffer): Tile {
  if (bytes.byteLength < 4) throw new Error("A tile is empty.");
  const length = new DataView(bytes).getUint32(0, true);
  const body = 4 + length;
  if (body > bytes.byteLength) throw new Error("A tile is cut short.");
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length))) as TileHeader;
  const column = (name: string): Numbers => {
    const said = header.arrays[name];
    if (!said || !said.count) return NONE;
    const make = MADE[said.dtype];
    if (!make) throw new Error(`A tile has a column of ${said.dtype}.`);
    return make(bytes, body + said.offset, said.count);
  };
  const depth = column("depth");
  const lanes = new Map<string, LaneMarks>();
  for (const { id, offset, count } of header.lanes) lanes.set(id, { bounds: bounds(depth, offset, offset + count) });
  const counters = new Map<string, { from: number; to: number }>();
  for (const { id, offset, count } of header.counters) counters.set(id, { from: offset, to: offset + count });
  const names = new Map<number, string>();
  for (const code in header.names) names.set(Number(code), header.names[code] ?? "");
  const unit = 2 ** header.z;
  const cover = column("cover");
  return {
    z: header.z,
    i: header.i,
    unit,
    start: header.i * UNITS * unit,
    lanes,
    counters,
    kinds: header.kinds,
    names,
    begin: column("start"),
    end: column("end"),
    row: column("row"),
    count: column("count"),
    kind: column("kind"),
    name: column("name"),
    hue: column("hue"),
    cover: cover.length ? cover : null,
    time: column("time"),
    mean: column("mean"),
    max: column("max"),
    bytes: bytes.byteLength + length,
  };
}

/** The z whose unit is half a pixel to one pixel wide, or one nanosecond. */
export function zFor(nsPerPixel: number): number {
  return Math.min(DEEPEST, Math.max(0, Math.floor(Math.log2(nsPerPixel) + 1e-9)));
}

/** First and last tile of depth z that [start, end) meets. */
export function tilesIn(start: number, end: number, z: number): [number, number] {
  const wide = UNITS * 2 ** z;
  const first = Math.floor(start / wide);
  return [first, Math.max(first, Math.ceil(end / wide) - 1)];
}

/** The first of the marks `from` to `to` that ends after `unit`; ends ascend within a row. */
export function firstAfter(end: Numbers, from: number, to: number, unit: number): number {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((end[middle] ?? 0) > unit) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The mark of a row at `unit`, or the nearest one within `slack` units; −1 if there is none. */
export function markAt(tile: Tile, lane: string, depth: number, unit: number, slack: number): number {
  const marks = tile.lanes.get(lane);
  if (!marks || depth < 0 || depth + 1 >= marks.bounds.length) return -1;
  const from = marks.bounds[depth] ?? 0;
  const to = marks.bounds[depth + 1] ?? 0;
  const after = firstAfter(tile.end, from, to, unit);
  let best = -1;
  let least = slack;
  for (const mark of [after, after - 1]) {
    if (mark < from || mark >= to) continue;
    const away = Math.max(0, (tile.begin[mark] ?? 0) - unit, unit - (tile.end[mark] ?? 0));
    if (away <= least) {
      if (away === 0) return mark;
      least = away;
      best = mark;
    }
  }
  return best;
}
