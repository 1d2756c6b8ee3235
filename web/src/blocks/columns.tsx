/** Stacked columns on one scale: steps, or ranks. */

import { useRef } from "preact/hooks";
import type { Columns } from "../api/blocks";
import { colour, INK } from "../base/colour";
import { scale, withUnit } from "../base/numbers";
import { printable } from "../base/text";
import { useProps } from "../base/props";
import { Frame, useLink } from "./frame";
import { fillOf, PartKey } from "./parts";
import { SaveSvg, Svg } from "./picture";

const NARROW = 132;
/** Over the whole page. */
const TALL = 208;
const FOOT = 18;
/** By so much a column that is cut stands out above the scale. */
const CUT = 8;

export function ColumnsBlock({ title, parts, stacks, unit, note, width: wideness }: Columns) {
  const HEIGHT = wideness === "full" ? TALL : NARROW;
  const { dark } = useProps();
  const leads = useLink();
  const svg = useRef<SVGSVGElement | null>(null);
  const sums = stacks.map((stack) => stack.values.reduce<number>((sum, value) => sum + Math.max(0, value ?? 0), 0));
  // What is apart does not set the scale; where it is longer, it is cut.
  const averaged = sums.filter((_, at) => !stacks[at]?.apart);
  const most = Math.max(...(averaged.length ? averaged : sums), 0);
  const by = scale(sums, unit);
  const ink = INK[dark ? "dark" : "light"];
  const used = parts.filter((_, place) => stacks.some((stack) => (stack.values[place] ?? 0) > 0));
  const keys = used.map((part) => ({ colour: fillOf(part, dark), label: part.label }));
  const tip = (at: number) => {
    const stack = stacks[at];
    if (!stack) return "";
    const lines = parts
      .map((part, place) => (stack.values[place] == null ? "" : `${part.label} ${withUnit(by, stack.values[place])}`))
      .filter(Boolean);
    const apart = stack.apart ? ` (${stack.apart}, not in the average)` : "";
    const mark = stack.mark ? `, ${stack.mark}` : "";
    return printable(stack.label) + mark + `: ${withUnit(by, sums[at])}${apart}\n` + lines.map(printable).join("\n");
  };
  const draw = (width: number) => {
    const top = stacks.some(({ mark }) => mark) ? 32 : 16;
    const tall = HEIGHT - FOOT - top;
    const pitch = width / Math.max(1, stacks.length);
    const gap = pitch > 24 ? 6 : pitch > 6 ? 2 : pitch > 3 ? 1 : 0;
    const wide = Math.min(pitch - gap, 72);
    const every = Math.max(1, Math.ceil(52 / pitch));
    return (
      <>
        <pattern id="apart" width={5} height={5} patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width={2.5} height={5} fill={ink.bg} fill-opacity={0.75} />
        </pattern>
        <line x1={0} x2={width} y1={top} y2={top} stroke={ink.line} stroke-dasharray="2 3" />
        <text x={width} y={top - 5} text-anchor="end" font-size={12} fill={ink.soft}>
          {withUnit(by, most)}
        </text>
        {stacks.map((stack, at) => {
          const x = at * pitch + (pitch - gap - wide) / 2 + gap / 2;
          let y = HEIGHT - FOOT;
          return (
            <g key={at}>
              <rect
                x={at * pitch}
                y={top}
                width={pitch}
                height={tall}
                fill="transparent"
                data-tip={tip(at)}
                {...leads(stack.link, tip(at))}
              />
              <g class="drawn">
                {parts.map((part, place) => {
                  const full = most ? (Math.max(0, stack.values[place] ?? 0) / most) * tall : 0;
                  const high = Math.min(full, Math.max(0, y - top + (stack.apart ? CUT : 0)));
                  y -= high;
                  return (
                    high > 0 && (
                      <rect
                        key={place}
                        x={x}
                        y={y}
                        width={Math.max(0.75, wide)}
                        height={high}
                        fill={fillOf(part, dark)}
                      />
                    )
                  );
                })}
                {stack.apart && (
                  <rect x={x} y={y} width={Math.max(0.75, wide)} height={HEIGHT - FOOT - y} fill="url(#apart)" />
                )}
                {stack.mark && (
                  <>
                    <path d={`M${x + wide / 2 - 5} ${y - 9}h10l-5 6z`} fill={colour("waiting", dark)} />
                    {pitch > 64 && (
                      <text
                        x={x + wide / 2}
                        y={y - 13}
                        text-anchor="middle"
                        font-size={12}
                        font-weight={600}
                        fill={ink.ink}
                      >
                        {printable(stack.mark)}
                      </text>
                    )}
                  </>
                )}
                {at % every === 0 && pitch * every >= 20 && (
                  <text
                    x={x + wide / 2}
                    y={HEIGHT - 4}
                    text-anchor="middle"
                    font-size={12}
                    font-weight={stack.mark ? 700 : 400}
                    fill={stack.mark ? ink.ink : ink.soft}
                  >
                    {printable(stack.label)}
                  </text>
                )}
              </g>
            </g>
          );
        })}
        <line x1={0} x2={width} y1={HEIGHT - FOOT} y2={HEIGHT - FOOT} stroke={ink.line} />
      </>
    );
  };
  return (
    <Frame title={title} note={note} name="columns" tools={<SaveSvg name={title} svg={svg} keys={keys} />}>
      <Svg svg={svg} height={HEIGHT} label={title} draw={draw} />
      {used.length > 1 && <PartKey parts={used} unit={unit} />}
    </Frame>
  );
}
