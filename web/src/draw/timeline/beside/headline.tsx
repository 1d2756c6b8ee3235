/** The sentence about the range in view, and a few facts beneath it, which are the key of the colours too. */

import { colour } from "../../../base/colour";
import { shown } from "../../../base/numbers";
import { printable, words } from "../../../base/text";
import { type Colouring, hueColour } from "../engine/hues";
import { kindWords } from "../stage/theme";
import type { RangeAnswer } from "../../../api/answers";

interface Props {
  readonly answer: RangeAnswer | undefined;
  readonly long: string;
  readonly selected: boolean;
  readonly ranks: string;
  /** Of which rank the numbers are, where several are shown. */
  readonly spoken: string;
  readonly notes: readonly string[];
  readonly dark: boolean;
  readonly colouring: Colouring;
}

const KINDS = 6;
const LONGEST_NAME = 32;

interface Key {
  readonly text: string;
  readonly ns: number;
  readonly ink: string;
}

/** What the colours mean: the kinds, names or modules with the most time in the range. */
function keyOf(answer: RangeAnswer | undefined, colouring: Colouring, dark: boolean): Key[] {
  const ink = (hue: number) => hueColour(hue, { dark, kinds: { other: colour("host", dark) } });
  if (colouring === "kind")
    return (answer?.by_kind ?? [])
      .filter(({ ns }) => ns > 0)
      .slice(0, KINDS)
      .map(({ kind, ns }) => ({ text: kindWords(kind), ns, ink: colour(kind, dark) }));
  const named =
    colouring === "name"
      ? (answer?.top ?? []).map(({ label, ns, hue }) => ({ name: label, ns, hue }))
      : (answer?.modules ?? []);
  return named.slice(0, KINDS).map(({ name, ns, hue }) => {
    const text = printable(name);
    return { text: text.length > LONGEST_NAME ? `${text.slice(0, LONGEST_NAME)}…` : text, ns, ink: ink(hue) };
  });
}

export function Headline({ answer, long, selected, ranks, spoken, notes, dark, colouring }: Props) {
  const sentence = answer ? words(answer.sentence) : `${selected ? "Selected" : "In view"}: ${long} of ${ranks}.`;
  return (
    <div class="tl-said">
      <h1 data-tip={sentence}>{sentence}</h1>
      <p class="tl-facts">
        <span>
          {long} {selected ? "selected" : ""} · {ranks}
          {spoken && `, in numbers: ${spoken}`}
        </span>
        {keyOf(answer, colouring, dark).map(({ text, ns, ink }) => (
          <span key={text}>
            <i style={{ background: ink }} />
            {text} {shown(ns, "ns")}
          </span>
        ))}
        {(answer?.facts ?? []).map((fact) => (
          <span key={fact}>{words(fact)}</span>
        ))}
        {notes.length > 0 && (
          <span class="tl-notes" tabIndex={0} data-tip={notes.map(words).join("\n")}>
            {words(notes[0] ?? "")}
          </span>
        )}
      </p>
    </div>
  );
}
