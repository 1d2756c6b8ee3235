/** What a source of answers is, and how a question is written. */

export type Query = Readonly<Record<string, string | number | undefined>>;

export interface Transport {
  /** No server behind it: only what was embedded can be asked. */
  readonly embedded: boolean;
  json(path: string, query: Query, signal?: AbortSignal): Promise<unknown>;
  post(path: string, query: Query, body: unknown, signal?: AbortSignal): Promise<unknown>;
  bytes(path: string, query: Query, signal?: AbortSignal): Promise<ArrayBuffer>;
  /** Whether anything below `path` can be asked. */
  holds(path: string): boolean;
  /** Where a file can be downloaded; "" where it cannot. */
  href(path: string, query: Query): string;
}

/** What went wrong, in one line, and what to do about it. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly hint = "",
    readonly status = 0,
  ) {
    super(message);
  }
}

/** Pairs sorted by key, without those that say nothing: the same question is the same text. */
export function pairs(query: Query): [string, string][] {
  return Object.entries(query)
    .filter((pair): pair is [string, string | number] => pair[1] !== undefined && pair[1] !== "")
    .map(([key, value]): [string, string] => [key, String(value)])
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}
