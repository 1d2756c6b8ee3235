/** What the address says, as a page is asked for. */

import type { State } from "../base/url";
import type { Query } from "./transport";

/** Selection, parameters of the page, and the run to compare with. */
export function queryOfState({ select, params, base }: State, own: Readonly<Record<string, string>> = params): Query {
  return {
    ...select,
    ...Object.fromEntries(Object.entries(own).map(([key, value]) => [`p.${key}`, value])),
    base: base || undefined,
  };
}
