/** Tiles of a run that were asked for; one that something can still come to is asked for again when there are more rows. */

import type { HistoryTile } from "../../api/answers";
import { api, runPath } from "../../api/client";

const MOST = 400;

interface Held {
  readonly tile: HistoryTile;
  readonly rows: number;
}

const held = new Map<string, Held>();
const asked = new Set<string>();

const keyOf = (run: string, scale: number, number: number): string => `${run} ${scale} ${number}`;

/** The tile if it was asked for, maybe before the last rows came. */
export const tileIn = (run: string, scale: number, number: number): HistoryTile | undefined =>
  held.get(keyOf(run, scale, number))?.tile;

/** Asks for the tiles that are missing or old; `done` is called for each that came. */
export function want(run: string, scale: number, numbers: readonly number[], rows: number, done: () => void): void {
  for (const number of numbers) {
    const key = keyOf(run, scale, number);
    const known = held.get(key);
    if (asked.has(key) || (known && (known.tile.whole || known.rows >= rows))) continue;
    asked.add(key);
    void api
      .json<HistoryTile>(runPath(run, "history", "tile"), { z: scale, i: number })
      .then((tile) => {
        held.delete(key);
        held.set(key, { tile, rows });
        if (held.size > MOST) held.delete(held.keys().next().value as string);
      })
      .catch(() => undefined) // what is there stays; it is asked for again with the next rows
      .finally(() => {
        asked.delete(key);
        done();
      });
  }
}
