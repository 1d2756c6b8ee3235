/** A table that no single analysis answers with: all its rows are here. */

import { useMemo, useState } from "preact/hooks";
import type { Rows } from "../api/blocks";
import { arranged } from "../api/arranged";
import type { Answer } from "../api/types";
import { scale } from "../base/numbers";
import { isNumber } from "../grid/cells";
import { DataTable, type TableState } from "../grid/table";

export function RowsBlock({ title, columns, rows, note }: Rows) {
  const [state, set] = useState<TableState>({ sort: "", search: "", columns: [] });
  const answer = useMemo<Answer>(
    () => ({
      columns,
      rows,
      total: rows.length,
      all: rows.length,
      notes: [],
      scales: Object.fromEntries(
        columns.flatMap((column, at) =>
          isNumber(column)
            ? [
                [
                  column.name,
                  scale(
                    rows.map((row) => row[at] as number | null),
                    column.unit,
                  ),
                ],
              ]
            : [],
        ),
      ),
    }),
    [columns, rows],
  );
  const asked = { sort: state.sort, search: state.search };
  return (
    <section class="block block-table">
      <DataTable
        source={{
          key: JSON.stringify([asked, columns, rows.length, rows[0]]),
          ask: async (window) => arranged(answer, { ...asked, ...window }),
        }}
        title={title}
        label={title}
        state={state}
        set={(change) => set({ ...state, ...change })}
        usual={[]}
        exports={[]}
        note={note}
      />
    </section>
  );
}
