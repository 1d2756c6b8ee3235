/** A few named numbers, in one column or one for each device. */

import type { Cell, Facts } from "../api/blocks";
import { shown } from "../base/numbers";
import { printable, words } from "../base/text";
import { Frame, To } from "./frame";

export function FactsBlock({ title, facts, heads, note }: Facts) {
  return (
    <Frame title={title} note={note} name="facts">
      <div class="scroll-x">
        <table>
          {heads.length > 0 && (
            <thead>
              <tr>
                <td />
                {heads.map((head, at) => (
                  <th scope="col" class="number" key={at}>
                    {printable(head)}
                  </th>
                ))}
              </tr>
            </thead>
          )}
          <tbody>
            {facts.map((fact, at) => (
              <tr key={at}>
                <th scope="row">
                  <span
                    data-tip={fact.doc || undefined}
                    tabIndex={fact.doc ? 0 : undefined}
                    class={fact.doc ? "defined" : ""}
                  >
                    {words(fact.label)}
                  </span>
                </th>
                {fact.cells.map((cell, place) => (
                  <td key={place} class="number" data-tip={cell.doc || undefined}>
                    <Value cell={cell} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Frame>
  );
}

function Value({ cell }: { cell: Cell }) {
  const text = cell.text ? words(cell.text) : shown(cell.value, cell.unit);
  return cell.link ? <To link={cell.link}>{text}</To> : <>{text}</>;
}
