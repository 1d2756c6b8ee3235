/** The step times of a whole run: bands over ranks, marks, ranks that are behind; as long as it goes on it is renewed. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { History, RunMark } from "../../api/blocks";
import type { HistoryState } from "../../api/answers";
import { useLive } from "../../api/live";
import { INK } from "../../base/colour";
import { grouped, shown } from "../../base/numbers";
import { useProps } from "../../base/props";
import { printable } from "../../base/text";
import { hideTip, showTip } from "../../base/tip";
import { BANDS, LANE, GUTTER, layoutOf, paint, shadeOf, stepAt, xOf, type Scene } from "./paint";
import { ageWords, bucketAt, moved, piecesOf, scaled, scaleFor, tileOf, tilesIn, type Stretch } from "./pieces";
import { tileIn, want } from "./store";
import { Canvas, pngOf, ZoomTools } from "../../blocks/canvas";
import { Frame } from "../../blocks/frame";
import { SaveMenu, useWidth } from "../../blocks/picture";

const NEAR = 4;
const CLICK = 3;

/** Without a block it is drawn from what the server has: before the page has worked out what to say. */
export function HistoryPicture({ block }: { readonly block: History | null }) {
  const { run, api, dark, params, go, follow } = useProps();
  const live = useLive(run);
  const [measure, width] = useWidth<HTMLDivElement>();
  const [own, setOwn] = useState<Stretch | null>(null);
  const [drag, setDrag] = useState<Stretch | null>(null);
  const [, draw] = useState(0);
  const pressed = useRef<number | null>(null);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const whole = useMemo(() => (block ? tileOf(block) : null), [block]);
  const all: Stretch = live?.end
    ? { from: live.first, to: live.end }
    : { from: whole?.first ?? 0, to: (whole?.first ?? 0) + (whole?.median.length ?? 1) * (whole?.size ?? 1) };
  const view = own ? moved(own, 0, all) : all;
  const scale = scaleFor(view, Math.max(width - GUTTER, 100));
  const numbers = tilesIn(view, scale);
  const mounted = useRef(true);
  useEffect(() => () => void (mounted.current = false), []);
  useEffect(() => {
    if (live?.rows && width) want(run, scale, numbers, live.rows, () => mounted.current && draw((turn) => turn + 1));
  });
  const pieces = piecesOf(view, scale, (z, i) => tileIn(run, z, i), whole);
  const marks = marksOf(pieces, block);
  const kinds = new Set([...marks, ...(block?.marks ?? [])].map((mark) => mark.kind));
  const layout = layoutOf(kinds, pieces[0]?.buckets.behind.length ?? 0);
  const chosen = drag ?? chosenOf(params);
  const scene: Scene = { pieces, marks, view, layout, width, dark, chosen };
  const ink = INK[dark ? "dark" : "light"];
  const select = (stretch: Stretch | null) => {
    // A report has no other answers than those that it was made with.
    if (api.embedded) return setOwn(stretch);
    const [from, to] = stretch ? [`${Math.floor(stretch.from)}`, `${Math.ceil(stretch.to) - 1}`] : [null, null];
    go({ params: { from, to } });
  };
  const zoom = (factor: number, at = (view.from + view.to) / 2) => {
    const next = scaled(view, factor, at, all);
    setOwn(next.to - next.from >= all.to - all.from ? null : next);
  };
  const pan = (share: number) => own && setOwn(moved(view, share * (view.to - view.from), all));
  const key = (event: KeyboardEvent) => {
    const keys: Record<string, () => void> = {
      w: () => zoom(0.5),
      s: () => zoom(2),
      a: () => pan(-0.25),
      d: () => pan(0.25),
      f: () => chosen && setOwn(scaled(chosen, 1.2, (chosen.from + chosen.to) / 2, all)),
      Escape: () => select(null),
      "0": () => setOwn(null),
    };
    const does = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    if (!does) return;
    does();
    event.preventDefault();
    event.stopPropagation();
  };
  const move = (x: number, y: number, event: PointerEvent) => {
    if (pressed.current !== null && Math.abs(x - pressed.current) > CLICK) {
      const ends = [stepAt(scene, pressed.current), stepAt(scene, x)].sort((one, other) => one - other);
      setDrag({ from: Math.max(ends[0] as number, all.from), to: Math.min(ends[1] as number, all.to) });
      hideTip();
      return;
    }
    const mark = markAt(scene, x, y);
    if (canvas.current) canvas.current.style.cursor = mark?.link || mark?.kind === "change" ? "pointer" : "crosshair";
    const said = x < GUTTER ? "" : mark ? saidOfMark(mark) : saidAt(scene, x, y);
    if (said) showTip(event.clientX, event.clientY, said);
    else hideTip();
  };
  const click = (x: number, y: number) => {
    const mark = markAt(scene, x, y);
    if (mark?.link) follow(mark.link);
    else if (mark?.kind === "change") {
      const wide = Math.max((view.to - view.from) / 20, 8);
      select({ from: Math.max(mark.step - wide, all.from), to: Math.min(mark.step + wide, all.to) });
    }
  };
  return (
    <Frame
      title={block?.title ?? "Step times of all ranks"}
      note={block?.note ?? ""}
      name="history"
      tools={
        <>
          <ZoomTools zoom={(closer) => zoom(closer ? 0.5 : 2)} all={own ? () => setOwn(null) : undefined} />
          {chosen && (
            <button class="tool" onClick={() => select(null)}>
              Clear selection
            </button>
          )}
          <SaveMenu name="history" png={() => pngOf(canvas.current, ink.bg)} />
        </>
      }
    >
      <Age live={live} />
      <div ref={measure}>
        {pieces.length ? (
          <Canvas
            canvas={canvas}
            height={layout.height}
            label="Step times over the run: W and S zoom, A and D move, drag selects steps, F shows them, Escape clears"
            draw={(pen, wide) => paint(pen as CanvasRenderingContext2D, { ...scene, width: wide })}
            on={{
              move,
              down: (x, _, event) => {
                if (x < GUTTER || event.button) return;
                pressed.current = x;
                canvas.current?.setPointerCapture(event.pointerId);
              },
              up: (x, y) => {
                const from = pressed.current;
                pressed.current = null;
                if (drag) select(drag);
                else if (from !== null) click(x, y);
                setDrag(null);
              },
              leave: hideTip,
              key,
              wheel: (x, event) => {
                const sideways =
                  Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.shiftKey ? event.deltaY : 0;
                if (event.ctrlKey || event.metaKey)
                  zoom(Math.exp(event.deltaY * 0.004), stepAt(scene, Math.max(x, GUTTER)));
                else if (sideways && own)
                  setOwn(moved(view, (sideways / (width - GUTTER)) * (view.to - view.from), all));
                else return;
                event.preventDefault();
              },
            }}
          />
        ) : (
          <p class="note">{live && !live.ranks ? "No step has ended yet." : "Reading the run…"}</p>
        )}
      </div>
      {layout.rows > 0 && (
        <p class="history-key">
          <Swatch colour={shadeOf(0, dark)} words="own work as the median of the ranks" />
          <Swatch colour={shadeOf(1, dark)} words="25% of a step behind, and more" />
        </p>
      )}
    </Frame>
  );
}

function Swatch({ colour, words }: { readonly colour: string; readonly words: string }) {
  return (
    <span>
      <i style={{ background: colour }} />
      {words}
    </span>
  );
}

/** How old the newest step is, as long as the run goes on. */
function Age({ live }: { readonly live: HistoryState | undefined }) {
  const [, tick] = useState(0);
  const since = useRef(performance.now());
  useEffect(() => void (since.current = performance.now()), [live]);
  useEffect(() => {
    const timer = setInterval(() => tick((turn) => turn + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  if (!live) return null;
  const words = live.error
    ? printable(live.error)
    : live.reading
      ? `reading: ${grouped(live.ranks)} ranks so far, ${grouped(live.reading)} to come`
      : live.ended
        ? "The run has ended."
        : live.age === null
          ? ""
          : ageWords(live.age + (performance.now() - since.current) / 1000);
  return (
    <p class="note history-age" role="status">
      {words}
    </p>
  );
}

function chosenOf(params: Readonly<Record<string, string>>): Stretch | null {
  const [from, to] = [Number(params["from"] ?? NaN), Number(params["to"] ?? NaN)];
  return Number.isFinite(from) && Number.isFinite(to) ? { from, to: to + 1 } : null;
}

/** The marks of the tiles; changes, which only the page knows, of the block. */
function marksOf(pieces: Scene["pieces"], block: History | null): RunMark[] {
  const own = block?.marks ?? [];
  const asked = pieces.flatMap((piece) => (block && piece.buckets.marks === block.marks ? [] : piece.buckets.marks));
  return [...own.filter((mark) => mark.kind === "change" || !asked.length), ...asked];
}

function markAt(scene: Scene, x: number, y: number): RunMark | null {
  const lane = scene.layout.lanes[Math.floor(y / LANE)];
  if (!lane || x < GUTTER) return null;
  const near = scene.marks
    .filter((mark) => mark.kind === lane[0])
    .map((mark) => ({ mark, far: Math.abs(xOf(scene, mark.step) - x) }))
    .sort((one, other) => one.far - other.far)[0];
  if (near && near.far <= NEAR) return near.mark;
  const step = stepAt(scene, x);
  return (
    scene.marks.find(
      (mark) => mark.kind === "change" && lane[0] === "change" && mark.step <= step && step <= mark.until,
    ) ?? null
  );
}

const saidOfMark = (mark: RunMark): string =>
  `${mark.words}\nstep ${grouped(mark.step)}${mark.until > mark.step ? ` – ${grouped(mark.until)}` : ""}`;

function saidAt(scene: Scene, x: number, y: number): string {
  const found = bucketAt(scene.pieces, stepAt(scene, x));
  if (!found) return "";
  const { piece, place } = found;
  const { size, first, fastest, median, slowest, rank, ranks, behind } = piece.buckets;
  if (median[place] == null) return "";
  const from = first + place * size;
  const steps = size > 1 ? `steps ${grouped(from)} – ${grouped(from + size - 1)}` : `step ${grouped(from)}`;
  const { layout } = scene;
  if (y >= layout.bands && y < layout.bands + BANDS)
    return [
      steps,
      `slowest ${shown(slowest[place], "ns")}, rank ${rank[place]}`,
      `median of the ranks ${shown(median[place], "ns")}`,
      `fastest ${shown(fastest[place], "ns")}`,
    ].join("\n");
  const row = Math.floor((y - layout.heat) / layout.row);
  const value = behind[row]?.[place];
  if (y < layout.heat || value == null) return "";
  const many = ranks[row]?.startsWith("ranks") ? "the slowest of them " : "";
  return `${ranks[row]}, ${steps}\n${many}${shown(Math.abs(value) / 1000, "fraction")} of a step ${value < 0 ? "ahead of" : "behind"} the median, in its own work`;
}
