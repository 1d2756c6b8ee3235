/** What took the most time in the range in view, while nothing is selected. */

import { colour } from "../../base/colour";
import { shown } from "../../base/numbers";
import { printable } from "../../base/text";
import { counted } from "./panel";
import type { RangeFacts } from "./types";

interface SummaryProps {
  readonly top: NonNullable<RangeFacts["top"]>;
  readonly dark: boolean;
  readonly pick: (row: number) => void;
  readonly find: (name: string) => void;
}

export function Summary({ top, dark, pick, find }: SummaryProps) {
  const sides = [
    ["device", "Most device time in this range"],
    ["host", "Most host time in this range"],
  ] as const;
  return (
    <section class="tl-summary" aria-label="What took the most time in this range">
      {sides.map(([side, title]) => {
        const rows = top.filter((one) => (one.side ?? "device") === side);
        if (!rows.length) return null;
        const most = Math.max(...rows.map(({ ns }) => ns));
        return (
          <div key={side}>
            <h2>{title}</h2>
            <table>
              <tbody>
                {rows.map(({ name, kind, ns, calls, row }) => (
                  <tr key={name}>
                    <th scope="row">
                      <button
                        class="link tl-row"
                        data-tip={printable(name)}
                        onClick={() => (row != null && row >= 0 ? pick(row) : find(name))}
                      >
                        <span>{printable(name)}</span>
                      </button>
                    </th>
                    <td class="tl-share" aria-hidden="true">
                      <i
                        style={{
                          width: `${(100 * ns) / most}%`,
                          background: colour(kind, dark),
                        }}
                      />
                    </td>
                    <td>{shown(ns, "ns")}</td>
                    <td class="soft">{counted(calls, "call")}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        );
      })}
    </section>
  );
}
