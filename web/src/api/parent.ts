/** Answers of whoever put the page into a frame: the cell of a notebook, which asks its kernel. */

import { queryOf } from "../base/url";
import { ApiError, pairs, type Query, type Transport } from "./transport";

interface Answer {
  readonly kinetoscope: number;
  readonly status: number;
  readonly buffer: ArrayBuffer;
}

export function parent(): Transport {
  const waiting = new Map<number, (answer: Answer) => void>();
  let last = 0;
  addEventListener("message", (event: MessageEvent<Answer>) => {
    if (event.source !== window.parent || typeof event.data?.kinetoscope !== "number") return;
    waiting.get(event.data.kinetoscope)?.(event.data);
    waiting.delete(event.data.kinetoscope);
  });
  // The frame has an origin of its own that nobody can name, and so may the cell around it.
  const asked = (method: string, path: string, body: string, signal?: AbortSignal) =>
    new Promise<ArrayBuffer>((done, failed) => {
      const kinetoscope = ++last;
      signal?.addEventListener("abort", () => {
        waiting.delete(kinetoscope);
        failed(new DOMException("no longer wanted", "AbortError"));
      });
      waiting.set(kinetoscope, ({ status, buffer }) => {
        if (status < 400) return done(buffer);
        const said = read(buffer) as { error?: string; hint?: string };
        failed(new ApiError(said.error ?? `The kernel answered ${status}.`, said.hint ?? "", status));
      });
      window.parent.postMessage({ kinetoscope, method, path, body }, "*");
    });
  const address = (path: string, query: Query) => `${path}${queryOf(pairs(query))}`;
  return {
    embedded: false,
    json: async (path, query, signal) => read(await asked("GET", address(path, query), "", signal)),
    post: async (path, query, body, signal) =>
      read(await asked("POST", address(path, query), JSON.stringify(body), signal)),
    bytes: (path, query, signal) => asked("GET", address(path, query), "", signal),
    holds: () => true,
    href: () => "",
  };
}

function read(buffer: ArrayBuffer): unknown {
  return JSON.parse(new TextDecoder().decode(buffer));
}
