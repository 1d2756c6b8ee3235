/** Tiles at hand: the least recently drawn go first; what is no longer wanted is no longer fetched. */

import { decode, type Tile, UNITS } from "./tile";
import type { Wanted } from "./types";

export const MOST_BYTES = 48 * 2 ** 20;
const AT_ONCE = 4;
const SETTLE = 40;
export const AGAIN = 3000;

export type Fetch = (wanted: Wanted, signal: AbortSignal) => Promise<ArrayBuffer>;

/** A tile, and the stretch of the rank's time for which it stands in. */
export interface Piece {
  tile: Tile;
  start: number;
  end: number;
}

export const keyOf = ({ rank, share, z, i }: Wanted): string => `${rank}/${share}/${z}/${i}`;

export class Store {
  private readonly held = new Map<string, Tile>();
  private readonly under = new Map<string, AbortController>();
  private readonly failed = new Map<string, number>();
  private readonly names = new Map<number, Map<number, string>>();
  private queue: Wanted[] = [];
  private depth = -1;
  private timer: ReturnType<typeof setTimeout> | undefined;
  bytes = 0;
  failure = "";
  /** ms after which a tile that failed is asked for again: never, where all there is is in a report. */
  again = AGAIN;

  /** The lane of a query, by rank. */
  readonly queries = new Map<number, Tile>();

  constructor(
    private readonly ask: Fetch,
    private readonly changed: () => void,
    private readonly most = MOST_BYTES,
  ) {}

  /** A tile at hand, which counts as used. */
  get(wanted: Wanted): Tile | undefined {
    const key = keyOf(wanted);
    const tile = this.held.get(key);
    if (tile) {
      this.held.delete(key);
      this.held.set(key, tile);
    }
    return tile;
  }

  /** The name of a code, if a tile of the rank has said it. */
  name(rank: number, code: number): string {
    return this.names.get(rank)?.get(code) ?? "";
  }

  get waiting(): number {
    return this.under.size + this.queue.length;
  }

  /** From now on these are wanted, the first ones first; everything else under way is cancelled. */
  want(list: readonly Wanted[], z: number): void {
    const keys = new Set(list.map(keyOf));
    for (const [key, control] of this.under) {
      if (keys.has(key)) continue;
      control.abort();
      this.under.delete(key);
    }
    const now = Date.now();
    this.queue = list.filter((one) => {
      const key = keyOf(one);
      return (
        !this.held.has(key) &&
        !this.under.has(key) &&
        (!this.failed.has(key) || now - (this.failed.get(key) ?? 0) >= this.again)
      );
    });
    // While zooming, depths pass by: none of them is asked for before it stays.
    const passing = z !== this.depth && this.depth >= 0;
    this.depth = z;
    if (passing || this.timer !== undefined) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        this.timer = undefined;
        this.next();
      }, SETTLE);
    } else this.next();
  }

  private next(): void {
    while (this.under.size < AT_ONCE) {
      const wanted = this.queue.shift();
      if (!wanted) return;
      void this.fetch(wanted);
    }
  }

  private async fetch(wanted: Wanted): Promise<void> {
    const key = keyOf(wanted);
    const control = new AbortController();
    this.under.set(key, control);
    try {
      const tile = decode(await this.ask(wanted, control.signal));
      if (control.signal.aborted) return;
      this.keep(key, wanted.rank, tile);
      this.failed.delete(key);
      this.failure = "";
    } catch (error) {
      if (control.signal.aborted) return;
      this.failed.set(key, Date.now());
      this.failure = error instanceof Error ? error.message : String(error);
      if (Number.isFinite(this.again)) setTimeout(this.changed, this.again + 50);
    } finally {
      if (this.under.get(key) === control) this.under.delete(key);
      this.next();
    }
    this.changed();
  }

  keep(key: string, rank: number, tile: Tile): void {
    this.bytes += tile.bytes - (this.held.get(key)?.bytes ?? 0);
    this.held.delete(key);
    this.held.set(key, tile);
    let names = this.names.get(rank);
    if (!names || names.size > 20000) this.names.set(rank, (names = new Map()));
    for (const [code, name] of tile.names) names.set(code, name);
    for (const [old, gone] of this.held) {
      if (this.bytes <= this.most || old === key) break;
      this.held.delete(old);
      this.bytes -= gone.bytes;
    }
  }

  clear(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    for (const control of this.under.values()) control.abort();
    this.under.clear();
    this.held.clear();
    this.names.clear();
    this.failed.clear();
    this.queue = [];
    this.bytes = 0;
  }

  /** What there is to draw of a tile: itself, or a coarser one, or finer ones, until it comes. */
  standing({ rank, share, z, i }: Wanted, top: number): Piece[] {
    const wide = UNITS * 2 ** z;
    const span = { start: i * wide, end: (i + 1) * wide };
    const own = this.get({ rank, share, z, i });
    if (own) return [{ tile: own, ...span }];
    const found: Piece[] = [];
    for (let finer = 1; finer <= 2 && z >= finer; finer++) {
      const parts = 2 ** finer;
      for (let k = 0; k < parts; k++) {
        const tile = this.get({ rank, share, z: z - finer, i: i * parts + k });
        if (tile) found.push({ tile, start: tile.start, end: tile.start + UNITS * tile.unit });
      }
      if (found.length === parts) return found;
      found.length = 0;
    }
    for (let coarser = 1; z + coarser <= top; coarser++) {
      const tile = this.get({ rank, share, z: z + coarser, i: Math.floor(i / 2 ** coarser) });
      if (tile) return [{ tile, ...span }];
    }
    return [];
  }
}
