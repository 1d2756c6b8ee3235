/** Answers of the server that the page came from. */

import { queryOf } from "../base/url";
import { ApiError, pairs, type Query, type Transport } from "./transport";

export function http(): Transport {
  const address = (path: string, query: Query) => `api/${path}${queryOf(pairs(query))}`;
  const json = async (answer: Response) => (await answer.json()) as unknown;
  return {
    embedded: false,
    json: async (path, query, signal) => json(await asked(address(path, query), signal ? { signal } : {})),
    post: async (path, query, body, signal) =>
      json(
        await asked(address(path, query), {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(body),
          ...(signal && { signal }),
        }),
      ),
    bytes: async (path, query, signal) => (await asked(address(path, query), signal ? { signal } : {})).arrayBuffer(),
    holds: () => true,
    href: address,
  };
}

async function asked(address: string, init: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(address, { credentials: "same-origin", ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(
      "The server does not answer.",
      "Is `kinetoscope view` still running? The page asks again by itself.",
    );
  }
  if (answer.ok) return answer;
  let said: { error?: string; hint?: string } = {};
  try {
    said = (await answer.json()) as typeof said;
  } catch {
    // Not ours: a proxy's page, say.
  }
  throw new ApiError(
    said.error || `The server answered ${answer.status} ${answer.statusText}.`,
    said.hint ?? "",
    answer.status,
  );
}
