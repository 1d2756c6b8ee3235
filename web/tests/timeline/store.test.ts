import { expect, test } from "vitest";
import { Store } from "../../src/draw/timeline/engine/store";
import { decode } from "../../src/draw/timeline/engine/tile";
import type { Wanted } from "../../src/draw/timeline/engine/types";
import { packed } from "./drawn";

const bytesOf = ({ z, i }: Wanted) =>
  packed(z, i, [{ lane: "0", depth: 0, start: 0, end: 9, row: i, name: `${z}/${i}` }]);
const wanted = (z: number, i: number): Wanted => ({ rank: 0, share: "marks", z, i });
const settled = () => new Promise((done) => setTimeout(done, 60));

test("tiles come, and their names are remembered", async () => {
  const store = new Store(
    async (one) => bytesOf(one),
    () => undefined,
  );
  store.want([wanted(4, 0), wanted(4, 1)], 4);
  await settled();
  expect(store.get(wanted(4, 1))?.i).toBe(1);
  expect(store.name(0, 0)).toBe("4/1");
  expect(store.waiting).toBe(0);
});

test("what is no longer wanted is cancelled", async () => {
  const cancelled: number[] = [];
  const store = new Store(
    ({ i }, signal) =>
      new Promise((_, fail) =>
        signal.addEventListener("abort", () => (cancelled.push(i), fail(new Error("cancelled")))),
      ),
    () => undefined,
  );
  store.want([wanted(4, 0), wanted(4, 1)], 4);
  store.want([wanted(4, 1), wanted(4, 2)], 4);
  expect(cancelled).toEqual([0]);
  store.clear();
  expect(cancelled).toEqual([0, 1, 2]);
});

test("the least recently used go first", () => {
  const tile = decode(bytesOf(wanted(4, 0)));
  const store = new Store(
    () => Promise.reject(new Error()),
    () => undefined,
    tile.bytes * 2.5,
  );
  for (const i of [0, 1]) store.keep(`0/marks/4/${i}`, 0, decode(bytesOf(wanted(4, i))));
  store.get(wanted(4, 0));
  store.keep("0/marks/4/2", 0, decode(bytesOf(wanted(4, 2))));
  expect([0, 1, 2].map((i) => !!store.get(wanted(4, i)))).toEqual([true, false, true]);
  expect(store.bytes).toBeLessThanOrEqual(tile.bytes * 2.5);
});

test("a coarser tile stands in, then finer ones, then the tile itself", () => {
  const store = new Store(
    () => Promise.reject(new Error()),
    () => undefined,
  );
  const keep = (z: number, i: number) => store.keep(`0/marks/${z}/${i}`, 0, decode(bytesOf(wanted(z, i))));
  const found = () => store.standing(wanted(4, 3), 9).map(({ tile }) => `${tile.z}/${tile.i}`);
  expect(found()).toEqual([]);
  keep(6, 0);
  expect(found()).toEqual(["6/0"]);
  expect(store.standing(wanted(4, 3), 9)[0]?.start).toBe(3 * 1024 * 16);
  keep(3, 6);
  expect(found()).toEqual(["6/0"]);
  keep(3, 7);
  expect(found()).toEqual(["3/6", "3/7"]);
  keep(4, 3);
  expect(found()).toEqual(["4/3"]);
});

test("a refused tile is told and not asked for at once again", async () => {
  let asked = 0;
  const store = new Store(
    () => {
      asked++;
      return Promise.reject(new Error("no such rank"));
    },
    () => undefined,
  );
  store.want([wanted(4, 0)], 4);
  await settled();
  store.want([wanted(4, 0)], 4);
  await settled();
  expect([asked, store.failure]).toEqual([1, "no such rank"]);
});
