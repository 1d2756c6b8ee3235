/** The few that make most of it: ranked bars, their share, and the share of all so far; or each before and now. */

import { useRef } from "preact/hooks";
import type { Bar, Bars } from "../api/blocks";
import { colour, INK } from "../base/colour";
import { inScale, scale, withUnit, sign } from "../base/numbers";
import { fitted, measured, printable } from "../base/text";
import { useProps } from "../base/props";
import { Frame, useLink } from "./frame";
import { Nothing } from "./nothing";
import { share } from "./parts";
import { SaveSvg, Svg } from "./picture";

const PITCH = 28;
const PAIR = 40;
const HEAD = 20;
const GAP = 16;

export function BarsBlock({ title, bars, unit, cumulative, note }: Bars) {
  const { dark } = useProps();
  const leads = useLink();
  const svg = useRef<SVGSVGElement | null>(null);
  const pairs = bars.some((bar) => bar.before !== null);
  const values = bars.flatMap((bar) => (bar.before === null ? [bar.value] : [bar.value, bar.before]));
  const by = scale(values, unit);
  const most = Math.max(0, ...values.map(Math.abs));
  const shares = bars.some((bar) => bar.share !== null);
  const ink = INK[dark ? "dark" : "light"];
  const pitch = pairs ? PAIR : PITCH;
  let sum = 0;
  const soFar = bars.map((bar) => (sum += bar.share ?? 0));
  const change = (bar: Bar) => bar.value - (bar.before ?? bar.value);
  const signed = (value: number) => sign(value) + inScale(by, Math.abs(value));
  const says = (bar: Bar) =>
    [
      printable(bar.name || bar.label),
      `${bar.before === null ? "" : `${withUnit(by, bar.before)} before, now `}${withUnit(by, bar.value)}${bar.share === null ? "" : `, ${share(bar.share)} of all`}`,
      printable(bar.detail),
    ]
      .filter(Boolean)
      .join("\n");
  /** Columns of numbers at the right: head, width, text of a bar, whether it is the number of the bar itself. */
  const columns = (slim: boolean): Column[] => {
    const wide = (texts: string[]) => Math.max(...texts.map((text) => measured(text)), 0) + GAP;
    const numbers = [`now (${by.label})`, ...values.map((value) => inScale(by, value))];
    if (pairs)
      return [
        { head: `before (${by.label})`, width: Math.max(wide(numbers), 96), text: (bar) => inScale(by, bar.before) },
        { head: `now (${by.label})`, width: wide(numbers), text: (bar) => inScale(by, bar.value), main: true },
        { head: "change", width: 72, text: (bar) => signed(change(bar)) },
      ];
    const found: Column[] = [
      {
        head: by.label,
        width: wide([by.label, ...bars.map((bar) => inScale(by, bar.value))]),
        text: (bar) => inScale(by, bar.value),
        main: true,
      },
    ];
    if (shares) found.push({ head: "share", width: 56, text: (bar) => (bar.share === null ? "" : share(bar.share)) });
    if (shares && cumulative && !slim)
      found.push({ head: "so far", width: 64, text: (_, at) => share(Math.min(1, soFar[at] ?? 0)) });
    return found;
  };
  const draw = (width: number) => {
    const slim = width < 560;
    const right = columns(slim);
    const tail = right.reduce((all, each) => all + each.width, 0);
    const weight = (bar: Bar) => (bar.chosen ? 600 : 400);
    const widest = Math.max(...bars.map((bar) => measured(printable(bar.label), 13, weight(bar)))) + 12;
    const names = Math.min(widest, width * (slim ? 0.42 : 0.46));
    const room = Math.max(8, width - names - tail - 8);
    const edges = right.map((_, at) => width - right.slice(at + 1).reduce((all, each) => all + each.width, 0));
    const long = (value: number) => Math.max(1, most ? (Math.abs(value) / most) * room : 0);
    return (
      <>
        {right.map(({ head }, at) => (
          <text key={head} x={edges[at]} y={12} text-anchor="end" font-size={12} fill={ink.soft}>
            {head}
          </text>
        ))}
        {bars.map((bar, at) => {
          const y = HEAD + at * pitch;
          const middle = y + pitch / 2;
          const words = says(bar);
          const fill = colour(bar.kind, dark);
          return (
            <g key={at}>
              <rect
                x={-8}
                y={y}
                width={width + 16}
                height={pitch}
                fill={bar.chosen ? ink.line : "transparent"}
                rx={4}
                data-tip={words}
                {...leads(bar.link, words, `mark hit${bar.chosen ? " chosen" : ""}`)}
              />
              <g class="drawn">
                {bar.chosen && <rect x={-8} y={y + 3} width={3} height={pitch - 6} rx={1.5} fill={ink.accent} />}
                <text x={0} y={middle + 4} font-size={13} font-weight={weight(bar)} fill={ink.ink}>
                  {fitted(printable(bar.label), names - 8, 13, weight(bar))}
                </text>
                {bar.before !== null && (
                  <rect
                    x={names}
                    y={middle - 14}
                    width={long(bar.before)}
                    height={12}
                    rx={2}
                    fill={fill}
                    opacity={0.45}
                  />
                )}
                <rect
                  x={names}
                  y={bar.before === null ? middle - 7 : middle + 1}
                  width={long(bar.value)}
                  height={bar.before === null ? 14 : 12}
                  rx={2}
                  fill={fill}
                />
                {right.map(({ head, text, main }, place) => (
                  <text
                    key={head}
                    x={edges[place]}
                    y={middle + 4}
                    text-anchor="end"
                    font-size={13}
                    fill={main ? ink.ink : ink.soft}
                  >
                    {text(bar, at)}
                  </text>
                ))}
              </g>
            </g>
          );
        })}
      </>
    );
  };
  return (
    <Frame title={title} note={note} name="bars" tools={bars.length > 0 && <SaveSvg name={title} svg={svg} />}>
      {bars.length ? <Svg svg={svg} height={HEAD + bars.length * pitch} label={title} draw={draw} /> : <Nothing />}
    </Frame>
  );
}

interface Column {
  readonly head: string;
  readonly width: number;
  readonly text: (bar: Bar, at: number) => string;
  readonly main?: boolean;
}
