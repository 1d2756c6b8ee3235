/** What to change, ranked by the time at stake: from what is sure to what is possible. */

import type { FindingRow, Findings, Link } from "../api/blocks";
import { scale, inScale, significant } from "../base/numbers";
import { words } from "../base/text";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { copyText } from "../base/copy";
import { useProps } from "../base/props";
import { Lines } from "./code";
import { Frame, To } from "./frame";

interface Props extends Findings {
  /** Stands beneath: where there are more. */
  readonly more?: ComponentChildren;
}

export function FindingsBlock({ title, findings, step, note, more }: Props) {
  const { server } = useProps();
  const there = (link: Partial<Link>) => !link.view || (server.pages ?? []).some((page) => page.name === link.view);
  return (
    <Frame title={title} note={note} name="findings">
      {findings.length ? (
        <ol>
          {findings.map((finding, at) => (
            <li key={`${finding.code}${at}`} class={`is-${finding.severity}`}>
              <div class="stake">
                {finding.high > 0 && <b>{stake(finding)}</b>}
                <span class="severity">
                  {finding.severity}
                  {finding.high > 0 && `, ${finding.certainty}`}
                </span>
                {finding.high > 0 && <Stake {...finding} step={step} />}
              </div>
              <div class="says">
                <p>
                  <b>{words(finding.message)}</b> {finding.detail && <span>{words(finding.detail)}</span>}{" "}
                  <span class="code" tabIndex={0} data-tip={finding.rule || undefined}>
                    {finding.code}
                  </span>
                </p>
                {finding.change && <Lines text={finding.change} />}
                {(finding.markdown || finding.links.some(there)) && (
                  <p class="links">
                    {finding.markdown && <Copy text={finding.markdown} />}
                    {finding.markdown && finding.links.some(there) && " · "}
                    {finding.links.filter(there).map((link, place) => (
                      <>
                        {place > 0 && " · "}
                        <To link={link} />
                      </>
                    ))}
                  </p>
                )}
              </div>
            </li>
          ))}
        </ol>
      ) : (
        <p class="empty">No rule finds anything that costs time.</p>
      )}
      {more && <p class="more">{more}</p>}
    </Frame>
  );
}

function Copy({ text }: { text: string }) {
  const [said, say] = useState("Copy as Markdown");
  return (
    <button
      class="link"
      aria-live="polite"
      onClick={() =>
        void copyText(text).then((done) => say(done ? "Copied" : "The browser does not let the page copy"))
      }
    >
      {said}
    </button>
  );
}

function stake({ low, high }: FindingRow): string {
  const by = scale([high], "ns");
  if (low <= 0) return `up to ${inScale(by, high)}\u00a0${by.label} a step`;
  const [from, to] = [significant(low / by.divisor), significant(high / by.divisor)];
  return `${from === to ? to : `${from} – ${to}`}\u00a0${by.label} a step`;
}

function Stake({ low, high, step }: { low: number; high: number; step: number }) {
  const whole = Math.max(step, high);
  const percent = (value: number) => `${(100 * Math.max(0, value)) / whole}%`;
  return (
    <div
      class="stake-bar"
      data-tip={
        step > 0
          ? `Sure to be won: ${significant((100 * Math.max(0, low)) / step)}% of a step; possible: ${significant((100 * high) / step)}%`
          : undefined
      }
    >
      <i class="possible" style={{ width: percent(high) }} />
      {low > 0 && <i class="sure" style={{ width: percent(low) }} />}
    </div>
  );
}
