/** Parameters of a page that its reader may change: choices and sliders. A change asks for the page anew. */

import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Control, Controls } from "../api/blocks";
import { printable, words } from "../base/text";
import { useProps } from "../base/props";
import { useAnswer } from "../api/ask";
import type { ListedRuns } from "../api/answers";
import { ManyRuns } from "../frame/pickers";
import { Pill } from "../frame/popover";
import { Frame } from "./frame";

/** A report keeps the page for each of so few choices (server/report.py). */
const KEPT = 4;

export function ControlsBlock({ title, note, controls }: Controls) {
  const { go, api } = useProps();
  const set = (name: string, value: string) => go({ params: { [name]: value } }, { replace: true });
  return (
    <Frame title={title} note={note} name="controls">
      <div class="controls">
        {controls.map((control) =>
          control.runs ? (
            !api.embedded && <ChosenRuns key={control.name} {...control} set={set} off={false} />
          ) : control.choices.length ? (
            <Choice key={control.name} {...control} set={set} off={api.embedded && control.choices.length > KEPT} />
          ) : control.high > control.low ? (
            <Slider key={control.name} {...control} set={set} off={api.embedded} />
          ) : (
            <Words key={control.name} {...control} set={set} off={api.embedded} />
          ),
        )}
      </div>
    </Frame>
  );
}

type Props = Control & { set: (name: string, value: string) => void; off: boolean };

function Choice({ name, label, value, choices, doc, set, off }: Props) {
  const few = choices.length <= 5 && choices.every(([, text]) => text.length <= 18);
  if (!few)
    return (
      <label class="control" data-tip={doc || undefined}>
        {words(label)}
        <select value={value} disabled={off} onChange={(event) => set(name, event.currentTarget.value)}>
          {choices.map(([key, text]) => (
            <option key={key} value={key}>
              {printable(text)}
            </option>
          ))}
        </select>
      </label>
    );
  return (
    <div class="control" role="group" aria-label={label} data-tip={doc || undefined}>
      {words(label)}
      <div class="segments">
        {choices.map(([key, text]) => (
          <button key={key} aria-pressed={key === value} disabled={off} onClick={() => set(name, key)}>
            {printable(text)}
          </button>
        ))}
      </div>
    </div>
  );
}

function Slider({ name, label, value, low, high, step, unit, doc, set, off }: Props) {
  const [now, setNow] = useState(value);
  const timer = useRef(0);
  const id = useId();
  useEffect(() => setNow(value), [value]);
  return (
    <div class="control" data-tip={doc || undefined}>
      <label for={id}>{words(label)}</label>
      <div class="slider">
        <input
          id={id}
          type="range"
          min={low}
          max={high}
          step={step || "any"}
          value={now}
          disabled={off}
          onInput={(event) => {
            const to = event.currentTarget.value;
            setNow(to);
            clearTimeout(timer.current);
            timer.current = window.setTimeout(() => set(name, to), 250);
          }}
        />
        <output for={id}>
          {now}
          {unit && (unit === "%" ? "%" : `\u00a0${unit}`)}
        </output>
      </div>
    </div>
  );
}

/** Which runs: those that the page shows are ticked; the open one always is. */
function ChosenRuns({ name, label, value, chosen, set }: Props) {
  const { run } = useProps();
  const { data } = useAnswer<ListedRuns>("runs");
  const shown = value.split(",").filter(Boolean);
  return (
    <div class="control">
      {words(label)}
      <div class="row">
        <Pill label="" value={chosen ? `${shown.length} runs` : "Choose"} title="Runs in the ledger" set={chosen}>
          {(close) => (
            <ManyRuns
              runs={(data?.runs ?? []).filter((each) => each.state !== "error")}
              open={run}
              chosen={shown}
              choose={(ids) => (set(name, ids.join(",")), close())}
            />
          )}
        </Pill>
        {chosen && (
          <button class="link" onClick={() => set(name, "")}>
            Forget the choice
          </button>
        )}
      </div>
    </div>
  );
}

function Words({ name, label, value, doc, set, off }: Props) {
  return (
    <label class="control" data-tip={doc || undefined}>
      {words(label)}
      <input value={value} disabled={off} onChange={(event) => set(name, event.currentTarget.value)} />
    </label>
  );
}
