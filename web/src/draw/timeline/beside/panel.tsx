/** What is selected: the event; its arguments; where it was called from; the same op elsewhere. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useAnswer } from "../../../api/ask";
import type { Link } from "../../../api/blocks";
import type { ServerInfo } from "../../../api/answers";
import { runPath } from "../../../api/client";
import { copyText } from "../../../base/copy";
import { shown, significant } from "../../../base/numbers";
import { useProps } from "../../../base/props";
import { printable } from "../../../base/text";
import { editorAddress, isWhole } from "../../../frame/follow";
import { instant } from "../engine/ruler";
import { kindWords } from "../stage/theme";
import type { EventDetails, Frame, TimelineLanes, TimelineStep } from "../../../api/answers";

export type Alike = "previous" | "next" | "longest";

interface Props {
  readonly facts: EventDetails;
  readonly rank: number;
  readonly lanes: TimelineLanes;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly server: ServerInfo;
  readonly embedded: boolean;
  readonly pick: (rank: number, row: number) => void;
  /** Lists all events of its name. */
  readonly list: () => void;
  /** Goes to another event of the same name; null where no server knows it. */
  readonly alike: ((which: Alike) => void) | null;
  readonly follow: (link: Partial<Link>) => void;
  readonly close: () => void;
  /** Null: as high as it is. */
  readonly height: number | null;
}

export function Panel(props: Props) {
  const { facts, close, height } = props;
  return (
    <section
      class="tl-panel"
      style={height == null ? {} : { height: `${height}px` }}
      aria-label={`Selected: ${printable(facts.name)}`}
    >
      <button class="tl-close" aria-label="Clear the selection" data-tip="Esc" onClick={close}>
        ×
      </button>
      <div class="tl-wide">
        <h2 class="tl-name" data-tip={printable(facts.name)}>
          {printable(facts.name)}
        </h2>
        <Copy facts={facts} />
      </div>
      <div>
        <About {...props} />
      </div>
      <div>
        <h2>Arguments</h2>
        <Arguments values={facts.arguments} />
      </div>
      <div>
        <h2>Called from</h2>
        <From {...props} />
      </div>
      <div>
        <h2>The same op elsewhere</h2>
        <Same {...props} />
        <Related {...props} />
      </div>
    </section>
  );
}

/** What is taken along: the name, the stack as Python writes it, the address of what is shown. */
function Copy({ facts }: { facts: EventDetails }) {
  const [said, say] = useState("");
  useEffect(() => say(""), [facts.row]);
  const stack = facts.stack.map(({ file, line, name }) => `${file}:${line} ${name}`);
  const texts: readonly (readonly [string, () => string])[] = [
    ["name", () => facts.name],
    ...(stack.length ? ([["stack", () => stack.join("\n")]] as const) : []),
    ["link", () => location.href],
  ];
  const copy = async (what: string, text: string) =>
    say((await copyText(text)) ? `The ${what} is copied.` : "The browser does not let the page copy.");
  return (
    <p class="tl-copy">
      Copy
      {texts.map(([what, text]) => (
        <button class="link" key={what} onClick={() => void copy(what, text())}>
          {what}
        </button>
      ))}
      <span role="status">{said}</span>
    </p>
  );
}

function Line({ name, tip = "", children }: { name: string; tip?: string; children: ComponentChildren }) {
  return (
    <>
      <dt {...(tip && { "data-tip": tip })}>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function About({ facts, rank, lanes, follow }: Props) {
  const own = lanes.ranks.find((one) => one.rank === rank);
  const group = own?.groups.find(({ lanes: some }) => some.some(({ id }) => id === facts.lane));
  const lane = group?.lanes.find(({ id }) => id === facts.lane);
  const device = group?.kind === "device";
  const self =
    facts.self_time != null && facts.self_time < facts.duration ? `, self ${shown(facts.self_time, "ns")}` : "";
  const where = [lane?.title ?? facts.lane, lanes.ranks.length > 1 ? `rank ${rank}` : ""].filter(Boolean).join(", ");
  return (
    <>
      <dl>
        <Line
          name={device ? "Device" : "Host"}
          tip={
            device
              ? "From its start to its end on the device."
              : "From its start to its end; self: without what it called."
          }
        >
          {shown(facts.duration, "ns")}
          {self}
        </Line>
        {!device && facts.device_total != null && facts.device_total > 0 && (
          <Line name="Device" tip="Device work that this call and what it called launched.">
            {shown(facts.device_total, "ns")}
            {facts.device_kernels ? ` in ${counted(facts.device_kernels, "kernel")}` : ""}
          </Line>
        )}
        {facts.limit?.floor != null && (
          <Line
            name="Floor"
            tip="This call by itself: the time that its arithmetic and traffic take at the peaks of the device, the share of its time that this is, and what takes longest of it."
          >
            {shown(facts.limit.floor, "ns")}, {shown(facts.limit.efficiency, "fraction")} reached
            {facts.limit.bound ? `, bound by ${facts.limit.bound}` : ""}
          </Line>
        )}
        {facts.limit?.waves != null && (
          <Line
            name="Waves"
            tip="Its blocks / those that the device runs at a time: what is more than a whole number leaves a part of the device empty in the last wave."
          >
            {significant(facts.limit.waves)}
          </Line>
        )}
        {facts.launch_delay != null && facts.launch_delay > 0 && (
          <Line
            name="Launch delay"
            tip="From the start of the launch on the host to the start of the work on the device."
          >
            {shown(facts.launch_delay, "ns")}
          </Line>
        )}
        <Line name="Start" tip="After the first event of the trace.">
          {instant(facts.start, Math.max(1, facts.duration / 10))}
          {facts.step != null ? `, ${intoStep(facts, own?.steps ?? [])}` : ""}
        </Line>
        <Line name="Where">{printable(where)}</Line>
        {facts.replay && (
          <Line name="Replay" tip="The replay of a graph that it belongs to; a click shows the graph's nodes.">
            <button
              class="link"
              onClick={() => follow({ view: "kernels", rank, params: { graph: String(facts.replay?.template) } })}
            >
              {printable(facts.replay.title)}
            </button>
          </Line>
        )}
        {(facts.kind || facts.category) && (
          <Line name="Kind">
            {[facts.kind && kindWords(facts.kind), facts.category && printable(facts.category)]
              .filter(Boolean)
              .join(" · ")}
          </Line>
        )}
      </dl>
    </>
  );
}

/** How far into its step, whose beginning is the one that all views show: that on the device. */
function intoStep({ start, step, duration }: EventDetails, steps: readonly TimelineStep[]): string {
  const begin = steps.find((one) => String(one.step) === String(step))?.start;
  const words = `step ${printable(String(step))}`;
  if (begin === undefined || start < begin) return words;
  return `${instant(start - begin, Math.max(1, duration / 10))} into ${words}`;
}

/** As it was recorded: numbers here are mostly identifiers and shapes, which grouped digits would disfigure. */
function raw(value: unknown): string {
  if (typeof value === "string") return printable(value);
  if (Array.isArray(value)) return `[${value.map(raw).join(", ")}]`;
  return printable(JSON.stringify(value) ?? "");
}

const LONG = 160;

function Arguments({ values }: { values: Readonly<Record<string, unknown>> }) {
  const names = Object.keys(values);
  if (!names.length) return <p class="soft">None were recorded.</p>;
  return (
    <dl class="tl-arguments">
      {names.map((name) => {
        const text = raw(values[name]);
        return (
          <Line name={printable(name)} key={name}>
            {text.length > LONG ? (
              <details>
                <summary>
                  <code>{text.slice(0, LONG)}…</code>
                </summary>
                <code>{text.slice(0, 20000)}</code>
              </details>
            ) : (
              <code>{text}</code>
            )}
          </Line>
        );
      })}
    </dl>
  );
}

function From({ facts, server, embedded, follow }: Props) {
  const stack = facts.stack;
  return (
    <>
      {facts.module && (
        <p class="tl-module">
          <span class="soft">in module</span> <code>{printable(facts.module)}</code>
        </p>
      )}
      {stack.length > 0 && facts.stack_note && <p class="soft">{facts.stack_note}</p>}
      {stack.length ? (
        <ol class="tl-stack">
          {stack.toReversed().map((frame, at) => (
            <li key={at}>
              <Where frame={frame} server={server} embedded={embedded} follow={follow} />
            </li>
          ))}
        </ol>
      ) : (
        <p class="soft">{facts.stack_note || "No stack was recorded (with_stack=True records it)."}</p>
      )}
    </>
  );
}

function Where({ frame, server, embedded, follow }: { frame: Frame } & Pick<Props, "server" | "embedded" | "follow">) {
  const { api, run } = useProps();
  const name = printable(frame.name);
  if (!frame.file) return <code>{name}</code>;
  const { file, line = 0 } = frame;
  const short = printable(file.split(/[\\/]/).at(-1) ?? file);
  const place = line ? `${short}:${line}` : short;
  return (
    <>
      <button
        class="link"
        data-tip={`${printable(file)}${line ? `:${line}` : ""}`}
        onClick={() => follow({ view: "sources", file, line })}
      >
        <code>{place}</code>
      </button>{" "}
      <code>{name}</code>
      {!embedded && (isWhole(file, server) || server.features.source_roots) && (
        <a
          class="tl-editor"
          href={editorAddress(file, line || 1, server)}
          onClick={(event) => {
            if (isWhole(file, server)) return;
            event.preventDefault(); // The server knows where below its folders the file is.
            void api.json<{ file: string }>(runPath(run, "source"), { file, line: line || 1, around: 0 }).then(
              (found) => location.assign(editorAddress(found.file, line || 1, server)),
              () => follow({ view: "sources", file, line }),
            );
          }}
          data-tip="Open in the editor"
          aria-label={`Open ${place} in the editor`}
        >
          ↗
        </a>
      )}
    </>
  );
}

const ALIKE: readonly (readonly [Alike, string, string])[] = [
  ["previous", "‹ Previous", ","],
  ["next", "Next ›", "."],
  ["longest", "Longest", ">"],
];

function Same({ facts, list, alike }: Props) {
  const { same } = facts;
  if (!same) return <p class="soft">There is none.</p>;
  const total =
    same.total != null
      ? `${shown(same.total, "ns")}${same.share != null ? `, ${shown(same.share, "fraction")} of all` : ""}`
      : "";
  return (
    <>
      <dl>
        <Line name="Calls">
          {shown(same.calls, "")}
          {same.per_step != null ? ` (${shown(same.per_step, "")} a step)` : ""}
        </Line>
        {total && (
          <Line
            name={same.on_device ? "Device total" : "Host total"}
            tip="Of all calls of this name in the steady steps; the share is of all such time in them."
          >
            {total}
          </Line>
        )}
      </dl>
      {same.calls > 1 && (
        <p class="tl-alike">
          {alike &&
            ALIKE.map(([which, words, key]) => (
              <button class="tl-tool" key={which} data-tip={key} onClick={() => alike(which)}>
                {words}
              </button>
            ))}
          {alike && (
            <button class="tl-tool" data-tip="All of them in a list" onClick={list}>
              List
            </button>
          )}
        </p>
      )}
    </>
  );
}

const SHOWN = 8;

function Related(props: Props) {
  const { facts } = props;
  const launched = facts.launched;
  const lines: [string, number][] = [];
  if (facts.launched_by != null) lines.push(["Launched by", facts.launched_by]);
  if (facts.parent != null) lines.push(["Called by", facts.parent]);
  if (facts.forward != null) lines.push(["Forward", facts.forward]);
  if (facts.backward != null) lines.push(["Backward", facts.backward]);
  if (!lines.length && !launched.length) return null;
  return (
    <dl class="tl-related">
      {lines.map(([name, row]) => (
        <Line name={name} key={name}>
          <Row {...props} row={row} />
        </Line>
      ))}
      {launched.slice(0, SHOWN).map((row, at) => (
        <Line name={at ? "" : "Launched"} key={row}>
          <Row {...props} row={row} />
        </Line>
      ))}
      {launched.length > SHOWN && <Line name="">and {launched.length - SHOWN} more</Line>}
    </dl>
  );
}

/** Another event, by name: a click selects it. */
function Row({ row, rank, path, query, pick }: Props & { row: number }) {
  const { data } = useAnswer<EventDetails>(`${path}/event`, { ...query, rank, row });
  const known = data?.row === row ? data : undefined;
  return (
    <button class="link tl-row" onClick={() => pick(rank, row)}>
      <span>{known ? printable(known.name) : `event ${row}`}</span>
      {known && <i>{shown(known.duration, "ns")}</i>}
    </button>
  );
}

export const counted = (count: number, what: string): string => `${shown(count, "")} ${what}${count === 1 ? "" : "s"}`;
