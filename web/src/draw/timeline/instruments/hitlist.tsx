/** All hits of a search, or all events of one name, as a table: a click or Enter goes to one. */

import { useState } from "preact/hooks";
import { tracked } from "../../../api/ask";
import type { TableAnswer } from "../../../api/answers";
import type { ViewProps } from "../../../base/props";
import { DataTable, type TableState } from "../../../grid/table";
import type { Searched } from "./searching";

interface Props {
  readonly api: ViewProps["api"];
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** Those that are drawn. */
  readonly ranks: string;
  readonly version: string;
  readonly search: Searched;
  /** Lists the events of this one's name instead. */
  readonly same: { readonly rank: string; readonly row: string } | null;
  readonly pick: (rank: number, row: number) => void;
}

const FILES = ["csv", "parquet"] as const;
const FIRST: TableState = { sort: "start", search: "", columns: [] };

export function HitList({ api, path, query, ranks, version, search, same, pick }: Props) {
  const [state, set] = useState<TableState>(FIRST);
  const { text, args, setArgs, asked } = search;
  const question: Readonly<Record<string, string>> = same
    ? { ...query, rank: same.rank, same: same.row }
    : { ...query, rank: ranks, q: text, ...(args && { arguments: "1" }) };
  return (
    <>
      {!same && <What args={args} set={setArgs} />}
      {text || same ? (
        <DataTable
          source={{
            key: JSON.stringify([path, question, version, state.sort, state.search]),
            ask: (window, signal) =>
              tracked(
                api.json<TableAnswer>(
                  `${path}/hits`,
                  { ...question, ...asked(), ...window, sort: state.sort, search: state.search },
                  signal,
                ),
              ),
          }}
          title=""
          label="Hits"
          state={state}
          set={(change) => set({ ...state, ...change })}
          usual={
            ranks.includes(",") ? ["rank", "start", "duration", "name", "lane"] : ["start", "duration", "name", "lane"]
          }
          canSearch={false}
          tallest={tallest()}
          exports={FILES.map((format) => ({
            label: format.toUpperCase(),
            href: api.href(`${path}/hits`, { ...question, ...asked(), sort: state.sort, format }),
          }))}
          open={(row, head) => {
            const place = (name: string) => head.columns.findIndex((column) => column.name === name);
            const [rank, event] = [row[place("rank")], row[place("row")]].map(Number);
            return rank === undefined || event === undefined ? null : () => pick(rank, event);
          }}
        />
      ) : (
        <p>Type into the search box.</p>
      )}
    </>
  );
}

function What({ args, set }: { args: boolean; set: (on: boolean) => void }) {
  return (
    <label
      class="tl-check"
      data-tip="A key (grid), a value ([64, 256]), a number, or both: External id=12. Lists match however they are spaced."
    >
      <input type="checkbox" checked={args} onChange={() => set(!args)} />
      Search arguments too: <code>grid</code>, <code>[64, 256]</code>, <code>External id=12</code>
    </label>
  );
}

/** What the window has for the rows. */
const tallest = (): number => Math.max(200, innerHeight - 300);
