/** What to change, ranked by the time at stake: from what is sure to what is possible. */

import type { Finding, Findings } from "../api/blocks";
import { scale, inScale, significant } from "../base/numbers";
import { printable, words } from "../base/text";
import { Frame, To } from "./frame";

export function FindingsBlock({ title, findings, step, note }: Findings) {
  return (
    <Frame title={title} note={note} name="findings">
      {findings.length ? (
        <ol>
          {findings.map((finding, at) => (
            <li key={`${finding.code}${at}`} class={finding.severity}>
              <div class="stake">
                <b>{stake(finding)}</b>
                {finding.high > 0 && <Stake {...finding} step={step} />}
              </div>
              <div class="says">
                <p>
                  <b>{words(finding.message)}</b> {finding.detail && <span>{words(finding.detail)}</span>}
                </p>
                {finding.change && (
                  <p class="change">
                    <code>{finding.change.replaceAll("`", "").split("\n").map(printable).join("\n")}</code>
                  </p>
                )}
                {finding.links.length > 0 && (
                  <p class="links">
                    {finding.links.map((link, place) => (
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
        <p class="empty">Nothing was found that costs time.</p>
      )}
    </Frame>
  );
}

function stake({ low, high, severity }: Finding): string {
  if (!(high > 0)) return severity;
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
