/** What took the most time in the range in view, while nothing is selected. */

import { colour } from "../../../base/colour";
import { shown } from "../../../base/numbers";
import { printable } from "../../../base/text";
import { type Colouring, hueColour } from "../engine/hues";
import { counted } from "./panel";
import type { RangeAnswer } from "../../../api/answers";

/** One line, while the summary is folded. */
export function Folded({ top, open }: { top: SummaryProps["top"]; open: () => void }) {
  const first = (side: string) => top.find((one) => one.side === side);
  const said = (["device", "host"] as const).flatMap((side) => {
    const one = first(side);
    return one ? [`most ${side} time: ${printable(one.label)}, ${shown(one.ns, "ns")}`] : [];
  });
  return (
    <button class="tl-folded" aria-expanded={false} onClick={open}>
      <i aria-hidden="true">▴</i> <b>In this range</b>{" "}
      {said.map((words) => (
        <span key={words}>{words}</span>
      ))}
    </button>
  );
}

interface SummaryProps {
  readonly top: NonNullable<RangeAnswer["top"]>;
  readonly dark: boolean;
  readonly colouring: Colouring;
  readonly pick: (row: number) => void;
  readonly find: (name: string) => void;
  readonly fold: () => void;
  readonly height: number | null;
}

export function Summary({ top, dark, colouring, pick, find, fold, height }: SummaryProps) {
  const sides = [
    ["device", "Most device time in this range"],
    ["host", "Most host time in this range"],
  ] as const;
  return (
    <section
      class="tl-summary"
      style={height == null ? {} : { height: `${height}px` }}
      aria-label="What took the most time in this range"
    >
      <button class="tl-close" aria-label="Fold the summary" data-tip="Fold" onClick={fold}>
        ▾
      </button>
      {sides.map(([side, title]) => {
        const rows = top.filter((one) => one.side === side);
        if (!rows.length) return null;
        const most = Math.max(...rows.map(({ ns }) => ns));
        return (
          <div key={side}>
            <h2>{title}</h2>
            <table>
              <tbody>
                {rows.map(({ name, label, kind, ns, calls, row, hue }) => (
                  <tr key={name}>
                    <th scope="row">
                      <button
                        class="link tl-row"
                        data-tip={printable(name)}
                        onClick={() => (row >= 0 ? pick(row) : find(name))}
                      >
                        <span>{printable(label)}</span>
                      </button>
                    </th>
                    <td class="tl-share" aria-hidden="true">
                      <i
                        style={{
                          width: `${(100 * ns) / most}%`,
                          background:
                            colouring === "name" && hue ? hueColour(hue, { dark, kinds: {} }) : colour(kind, dark),
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
