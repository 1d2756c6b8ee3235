/** Asks for answers: of a server, or of the report that the page is inside. Views do not know which. */

import { embedded } from "./embedded";
import { http } from "./http";
import type { Query, Transport } from "./transport";

export interface Api {
  readonly embedded: boolean;
  json<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T>;
  post<T>(path: string, query: Query, body: unknown, signal?: AbortSignal): Promise<T>;
  bytes(path: string, query?: Query, signal?: AbortSignal): Promise<ArrayBuffer>;
  holds(path: string): boolean;
  href(path: string, query?: Query): string;
}

export const runPath = (run: string, ...parts: string[]): string =>
  ["runs", run, ...parts].map(encodeURIComponent).join("/");

const made: Transport = embedded() ?? http();

export const api: Api = {
  embedded: made.embedded,
  json: async <T>(path: string, query: Query = {}, signal?: AbortSignal) => (await made.json(path, query, signal)) as T,
  post: async <T>(path: string, query: Query, body: unknown, signal?: AbortSignal) =>
    (await made.post(path, query, body, signal)) as T,
  bytes: (path, query = {}, signal) => made.bytes(path, query, signal),
  holds: (path) => made.holds(path),
  href: (path, query = {}) => made.href(path, query),
};
