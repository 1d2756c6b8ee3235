/** The few that make most of it: ranked bars, their share, and the share of all so far. */

import { useRef } from "preact/hooks";
import type { Bars } from "../api/blocks";
import { colour, INK } from "../base/colour";
import { inScale, scale, withUnit } from "../base/numbers";
import { fitted, measured, printable } from "../base/text";
import { useProps } from "../base/props";
import { Frame, useLink } from "./frame";
import { share } from "./parts";
import { SaveSvg, Svg } from "./picture";

const PITCH = 28;
const HEAD = 20;

export function BarsBlock({ title, bars, unit, full, cumulative, note }: Bars) {
  const { dark } = useProps();
  const leads = useLink();
  const svg = useRef<SVGSVGElement | null>(null);
  const by = scale(
    bars.map((bar) => bar.value),
    unit,
  );
  const most = Math.max(full, ...bars.map((bar) => Math.abs(bar.value)));
  const shares = bars.some((bar) => bar.share !== null);
  const ink = INK[dark ? "dark" : "light"];
  const tall = bars.length * PITCH;
  let sum = 0;
  const soFar = bars.map((bar) => (sum += bar.share ?? 0));
  const draw = (width: number) => {
    const slim = width < 560;
    const tail = Math.max(...bars.map((bar) => measured(inScale(by, bar.value))), measured(by.label, 12)) + 12;
    const shareAt = shares ? 48 : 0;
    const sofar = shares && cumulative && !slim ? 64 : 0;
    const widest = Math.max(...bars.map((bar) => measured(printable(bar.label)))) + 8;
    const names = Math.min(widest, width * (slim ? 0.42 : 0.38));
    const room = width - names - tail - shareAt - sofar - 16;
    const head = (x: number, text: string) => (
      <text x={x} y={12} text-anchor="end" font-size={12} fill={ink.soft}>
        {text}
      </text>
    );
    return (
      <>
        {head(width - shareAt - sofar, by.label)}
        {shareAt > 0 && head(width - sofar, "share")}
        {sofar > 0 && head(width, "so far")}
        {bars.map((bar, at) => {
          const y = HEAD + at * PITCH;
          const words = `${printable(bar.label)}\n${withUnit(by, bar.value)}${bar.share === null ? "" : `, ${share(bar.share)} of all`}${bar.detail ? `\n${printable(bar.detail)}` : ""}`;
          const text = (x: number, what: string, fill: string) => (
            <text x={x} y={y + 18} text-anchor="end" font-size={13} fill={fill}>
              {what}
            </text>
          );
          return (
            <g key={at}>
              <rect
                x={-8}
                y={y}
                width={width + 16}
                height={PITCH}
                fill="transparent"
                rx={4}
                data-tip={words}
                {...leads(bar.link, words, "mark hit")}
              />
              <g class="drawn">
                <text x={0} y={y + 18} font-size={13} fill={ink.ink}>
                  {fitted(printable(bar.label), names - 8)}
                </text>
                <rect
                  x={names + 4}
                  y={y + 7}
                  width={Math.max(1, most ? (Math.abs(bar.value) / most) * room : 0)}
                  height={14}
                  rx={2}
                  fill={colour(bar.kind, dark)}
                />
                {text(width - shareAt - sofar, inScale(by, bar.value), ink.ink)}
                {shareAt > 0 && text(width - sofar, bar.share === null ? "" : share(bar.share), ink.soft)}
                {sofar > 0 && text(width, share(Math.min(1, soFar[at] ?? 0)), ink.soft)}
              </g>
            </g>
          );
        })}
      </>
    );
  };
  return (
    <Frame title={title} note={note} name="bars" tools={bars.length > 0 && <SaveSvg name={title} svg={svg} />}>
      {bars.length ? (
        <Svg svg={svg} height={HEAD + tall} label={title} draw={draw} />
      ) : (
        <p class="empty">There is none in what is selected.</p>
      )}
    </Frame>
  );
}
