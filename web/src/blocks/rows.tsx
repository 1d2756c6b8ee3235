/** A table that no single analysis answers with: all its rows are here. */

import { useMemo, useState } from "preact/hooks";
import type { Rows } from "../api/blocks";
import { arranged } from "../api/arranged";
import type { TableAnswer } from "../api/answers";
import { DataTable, type TableState } from "../grid/table";

export function RowsBlock({ title, columns, rows, scales, short, note }: Rows) {
  const [state, set] = useState<TableState>({ sort: "", search: "", columns: [] });
  const answer = useMemo<TableAnswer>(
    () => ({
      analysis: title,
      params: {},
      columns: columns.map((column) => ({ ...column, instant: false })),
      ranks: null,
      rows,
      total: rows.length,
      all: rows.length,
      notes: [],
      short,
      scales: Object.fromEntries(Object.entries(scales).map(([name, [label, divisor]]) => [name, { label, divisor }])),
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
