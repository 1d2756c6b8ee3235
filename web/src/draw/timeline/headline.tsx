/** The sentence about the range in view, and a few facts beneath it, which are the key of the colours too. */

import { colour } from "../../base/colour";
import { shown } from "../../base/numbers";
import { words } from "../../base/text";
import { kindWords } from "./theme";
import type { RangeFacts } from "./types";

interface Props {
  readonly answer: RangeFacts | undefined;
  readonly long: string;
  readonly selected: boolean;
  readonly ranks: string;
  /** Of which rank the numbers are, where several are shown. */
  readonly spoken: string;
  readonly notes: readonly string[];
  readonly dark: boolean;
}

const KINDS = 6;

export function Headline({ answer, long, selected, ranks, spoken, notes, dark }: Props) {
  const sentence = answer ? words(answer.sentence) : `${selected ? "Selected" : "In view"}: ${long} of ${ranks}.`;
  const kinds = (answer?.by_kind ?? []).filter(({ ns }) => ns > 0).slice(0, KINDS);
  return (
    <div class="tl-said">
      <h1 data-tip={sentence}>{sentence}</h1>
      <p class="tl-facts">
        <span>
          {long} {selected ? "selected" : ""} · {ranks}
          {spoken && `, in numbers: ${spoken}`}
        </span>
        {kinds.map(({ kind, ns }) => (
          <span key={kind}>
            <i style={{ background: colour(kind, dark) }} />
            {kindWords(kind)} {shown(ns, "ns")}
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
