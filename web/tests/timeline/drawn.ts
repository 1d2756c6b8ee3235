/** Tiles drawn in code, packed as the server packs them. */

export interface DrawnMark {
  readonly lane: string;
  readonly depth: number;
  /** Units of the tile. */
  readonly start: number;
  readonly end: number;
  readonly row: number;
  readonly name?: string;
  readonly kind?: string;
  readonly count?: number;
  readonly cover?: number;
}

export function packed(
  z: number,
  i: number,
  marks: readonly DrawnMark[],
  level: readonly [number, number][] = [],
): ArrayBuffer {
  const sorted = [...marks].sort((a, b) => a.lane.localeCompare(b.lane) || a.depth - b.depth || a.start - b.start);
  const lanes = [...new Set(sorted.map(({ lane }) => lane))].map((id) => ({
    id,
    offset: sorted.findIndex(({ lane }) => lane === id),
    count: sorted.filter(({ lane }) => lane === id).length,
  }));
  const kinds = ["host", ...new Set(sorted.map(({ kind }) => kind ?? "host").filter((kind) => kind !== "host"))];
  const names = [...new Set(sorted.map(({ name }) => name ?? ""))];
  const columns: Record<string, ArrayBufferView> = {
    start: Float32Array.from(sorted, ({ start }) => start),
    end: Float32Array.from(sorted, ({ end }) => end),
    depth: Uint16Array.from(sorted, ({ depth }) => depth),
    row: Int32Array.from(sorted, ({ row }) => row),
    count: Int32Array.from(sorted, ({ count }) => count ?? 1),
    kind: Uint8Array.from(sorted, ({ kind }) => kinds.indexOf(kind ?? "host")),
    name: Int32Array.from(sorted, ({ name }) => (name ? names.indexOf(name) : -1)),
    cover: Uint8Array.from(sorted, ({ cover }) => cover ?? 255),
    time: Float32Array.from(level, ([time]) => time),
    mean: Float32Array.from(level, ([, mean]) => mean),
    max: Float32Array.from(level, ([, mean]) => mean),
  };
  const arrays: Record<string, { dtype: string; offset: number; count: number }> = {};
  let offset = 0;
  for (const [name, column] of Object.entries(columns)) {
    const dtype = column.constructor.name.replace("Array", "").toLowerCase();
    arrays[name] = { dtype, offset, count: column.byteLength / (column as Uint8Array).BYTES_PER_ELEMENT };
    offset += Math.ceil(column.byteLength / 8) * 8;
  }
  const facts = {
    z,
    i,
    lanes,
    counters: level.length ? [{ id: "busy", offset: 0, count: level.length }] : [],
    kinds,
    names: Object.fromEntries(names.map((name, code) => [code, name])),
    arrays,
  };
  let header = new TextEncoder().encode(JSON.stringify(facts));
  const wanted = Math.ceil((header.length + 4) / 8) * 8 - 4;
  header = new TextEncoder().encode(JSON.stringify(facts) + " ".repeat(wanted - header.length));
  const bytes = new Uint8Array(4 + header.length + offset);
  new DataView(bytes.buffer).setUint32(0, header.length, true);
  bytes.set(header, 4);
  for (const [name, column] of Object.entries(columns)) {
    bytes.set(
      new Uint8Array(column.buffer, column.byteOffset, column.byteLength),
      4 + header.length + (arrays[name]?.offset ?? 0),
    );
  }
  return bytes.buffer;
}
