/** One bar divided into parts, with its key beneath. */

import { useRef } from "preact/hooks";
import type { Part, Parts, Unit } from "../api/blocks";
import { blended, colour, INK } from "../base/colour";
import { scale, shown, significant, withUnit } from "../base/numbers";
import { printable } from "../base/text";
import { useProps } from "../base/props";
import { Frame, To, useLink } from "./frame";
import { SaveSvg, Svg } from "./picture";

const HEIGHT = 34;

export function PartsBlock({ title, parts, unit, note }: Parts) {
  const { dark } = useProps();
  const leads = useLink();
  const svg = useRef<SVGSVGElement | null>(null);
  const whole = parts.reduce((sum, part) => sum + Math.max(0, part.value), 0);
  const words = (part: Part) =>
    `${part.label}: ${shown(part.value, unit)}${whole ? ` (${share(part.value / whole)})` : ""}${part.doc ? `\n${part.doc}` : ""}`;
  const keys = parts.map((part) => ({
    colour: fillOf(part, dark),
    label: `${part.label} ${shown(part.value, unit)} ${whole ? share(part.value / whole) : ""}`,
  }));
  return (
    <Frame title={title} note={note} name="parts" tools={<SaveSvg name={title} svg={svg} keys={keys} />}>
      <Svg
        svg={svg}
        height={HEIGHT}
        label={title}
        draw={(width) => {
          let at = 0;
          return (
            <g clip-path={`inset(0 0 0 0 round 5px)`}>
              {parts.map((part, place) => {
                const x = whole ? (at / whole) * width : 0;
                at += Math.max(0, part.value);
                const wide = whole ? (Math.max(0, part.value) / whole) * width : 0;
                return (
                  <rect
                    key={place}
                    x={x}
                    y={0}
                    width={Math.max(0, wide - (wide > 4 && place < parts.length - 1 ? 1 : 0))}
                    height={HEIGHT}
                    fill={fillOf(part, dark)}
                    data-tip={words(part)}
                    {...leads(part.link, words(part))}
                  />
                );
              })}
              {!whole && <rect width={width} height={HEIGHT} fill={colour("idle", dark)} />}
            </g>
          );
        }}
      />
      <PartKey parts={parts} unit={unit} whole={whole} />
    </Frame>
  );
}

/** The colour of a part: that of its kind, paler where parts of one kind are told apart. */
export const fillOf = ({ kind, shade = 1 }: Part, dark: boolean): string =>
  shade < 1 ? blended(INK[dark ? "dark" : "light"].bg, colour(kind, dark), shade) : colour(kind, dark);

/** What the colours of a bar mean; with values and shares where `whole` is given. */
export function PartKey({ parts, unit, whole }: { parts: readonly Part[]; unit: Unit; whole?: number }) {
  const { dark } = useProps();
  const by = scale(
    parts.map((part) => part.value),
    unit,
  );
  return (
    <ul class="key">
      {parts.map((part, place) => (
        <li key={place} data-tip={part.doc || undefined}>
          <i style={{ background: fillOf(part, dark) }} />
          {part.link ? <To link={part.link}>{printable(part.label)}</To> : printable(part.label)}
          {whole !== undefined && (
            <>
              <b>{withUnit(by, part.value)}</b>
              {whole > 0 && <em>{share(part.value / whole)}</em>}
            </>
          )}
        </li>
      ))}
    </ul>
  );
}

/** A share beside its number: whole percents suffice. */
export function share(of: number): string {
  const percent = of * 100;
  if (percent > 0 && percent < 1) return "<1%";
  return `${percent >= 10 || percent === 0 ? Math.round(percent) : significant(percent).slice(0, 3)}%`;
}
