/** The sentence about the range in view, and a few facts beneath it, which are the key of the colours too. */

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
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
  readonly dark: boolean;
}

const KINDS = 6;

export function Headline({ answer, long, selected, ranks, spoken, dark }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  // A sentence that gets shorter leaves its room: the picture must not move beneath the pointer.
  useLayoutEffect(() => {
    if (heading.current) heading.current.style.minHeight = `${heading.current.offsetHeight}px`;
  });
  useEffect(() => {
    const free = () => heading.current?.style.removeProperty("min-height");
    addEventListener("resize", free);
    return () => removeEventListener("resize", free);
  }, []);
  const kinds = (answer?.by_kind ?? []).filter(({ ns }) => ns > 0).slice(0, KINDS);
  return (
    <>
      <h1 ref={heading}>
        {answer ? words(answer.sentence) : `${selected ? "Selected" : "In view"}: ${long} of ${ranks}.`}
      </h1>
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
      </p>
    </>
  );
}
