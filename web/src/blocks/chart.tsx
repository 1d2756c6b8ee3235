/** A chart by Vega-Lite: a click on a mark follows its link, a brush selects a time range. */

import { timeRangeText } from "../base/ranges";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Chart, Link } from "../api/blocks";
import { INK } from "../base/colour";
import { useProps } from "../base/props";
import { chart, type Drawn } from "../draw/charts";
import { FailedHere } from "../frame/states";
import { Frame } from "./frame";
import { SaveMenu, useWidth } from "./picture";

export function ChartBlock({ title, spec, note }: Chart) {
  return <ChartOf title={title} spec={spec} note={note} />;
}

interface Props {
  readonly title: string;
  readonly spec: Readonly<Record<string, unknown>>;
  readonly note?: string;
}

export function ChartOf({ title, spec, note = "" }: Props) {
  const { dark, follow, go } = useProps();
  const box = useRef<HTMLDivElement | null>(null);
  const view = useRef<Drawn | null>(null);
  const [error, setError] = useState("");
  const [ref, width] = useWidth<HTMLDivElement>();
  const text = useMemo(() => JSON.stringify(spec), [spec]);
  const links = useRef({ follow, go });
  links.current = { follow, go };

  useEffect(() => {
    const element = box.current;
    if (!element || !width) return;
    let gone = false;
    void chart(element, spec, dark).then(
      (drawn) => {
        if (gone) return void drawn.finalize();
        view.current?.finalize();
        view.current = drawn;
        setError("");
        drawn.addEventListener("click", (_event, item) => {
          const link = (item?.datum as { link?: Partial<Link> } | undefined)?.link;
          if (link && typeof link === "object") links.current.follow(link);
        });
        watchBrush(drawn, spec, (time) => links.current.go({ select: { time } }));
      },
      (failed: unknown) => !gone && setError(failed instanceof Error ? failed.message : String(failed)),
    );
    return () => {
      gone = true;
    };
  }, [text, dark, width]);
  useEffect(() => () => void view.current?.finalize(), []);

  /** Saved on the colour of the page, which the page itself gives otherwise. */
  const saved = async <T,>(make: (drawn: Drawn) => Promise<T>): Promise<T | null> => {
    const drawn = view.current;
    if (!drawn) return null;
    drawn.background(INK[dark ? "dark" : "light"].bg);
    const made = await make(drawn);
    drawn.background(null as never);
    return made;
  };
  const png = async () => {
    const canvas = await saved((drawn) => drawn.toCanvas(2));
    return new Promise<Blob | null>((done) => (canvas ? canvas.toBlob(done) : done(null)));
  };
  const svg = async () => (await saved((drawn) => drawn.toSVG())) ?? "";
  return (
    <Frame title={title} note={note} name="chart" tools={<SaveMenu name={title || "chart"} png={png} svg={svg} />}>
      {error && <FailedHere error={{ message: "The chart could not be drawn.", hint: error }} />}
      <div class="vega" ref={ref}>
        <div ref={box} role="img" aria-label={title || "chart"} />
      </div>
    </Frame>
  );
}

const SETTLED = 350;

/** Where the chart has a parameter `brush` over x, the range it holds when the hand rests becomes the time range. */
function watchBrush(view: Drawn, spec: Readonly<Record<string, unknown>>, select: (time: string) => void): void {
  const divisor = (spec["usermeta"] as { time_divisor?: number } | undefined)?.time_divisor ?? 1;
  let timer = 0;
  try {
    view.addSignalListener("brush", (_name, value: unknown) => {
      const range = Object.values((value ?? {}) as Record<string, unknown>)[0];
      clearTimeout(timer);
      if (!Array.isArray(range) || range.length !== 2) return;
      const [from, to] = (range as number[]).map((each) => Math.round(each * divisor)).sort((a, b) => a - b) as [
        number,
        number,
      ];
      timer = window.setTimeout(() => to > from && select(timeRangeText(Math.max(0, from), to)), SETTLED);
    });
  } catch {
    // The chart has no brush.
  }
}
