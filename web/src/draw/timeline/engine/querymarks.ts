/** The rows of a query as a tile, which the painter holds beside those of the run. */

import { bounds, type Tile } from "./tile";
import type { QueryMarks } from "../../../api/answers";

/** Id of the lane. */
export const QUERY = "query";
/** Units of the tile that hold marks: a little less than it has, so that none seems to go on in another. */
const WIDE = 1000;

/** The tile of a rank's marks, which come by start. */
export function queryTile({ start, end, row, depth, name, names, hues }: QueryMarks): Tile {
  const order = start.map((_, at) => at).sort((a, b) => (depth[a] ?? 0) - (depth[b] ?? 0) || a - b);
  const first = start[0] ?? 0;
  const last = end.reduce((most, each) => Math.max(most, each), first + 1);
  const unit = (last - first) / WIDE;
  const of = (values: readonly number[]) => Float64Array.from(order, (at) => values[at] ?? 0);
  const whole = (values: readonly number[]) => Int32Array.from(order, (at) => values[at] ?? 0);
  const none = new Float32Array(0);
  return {
    z: 0,
    i: 0,
    unit,
    start: first,
    lanes: new Map([[QUERY, { bounds: bounds(whole(depth), 0, order.length) }]]),
    counters: new Map(),
    kinds: ["other"],
    names: new Map(names.map((text, at) => [at, text])),
    begin: of(start).map((time) => (time - first) / unit),
    end: of(end).map((time) => (time - first) / unit),
    row: whole(row),
    count: new Uint8Array(order.length).fill(1),
    kind: new Uint8Array(order.length),
    name: whole(name),
    hue: Uint8Array.from(order, (at) => hues[name[at] ?? 0] ?? 0),
    cover: null,
    time: none,
    mean: none,
    max: none,
    bytes: 0,
  };
}
