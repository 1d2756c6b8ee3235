/** The place below the picture: how high it is, whether it is folded, and the border that is drawn. */

import { useState } from "preact/hooks";
import { keep, recall } from "../../../base/theme";

const KEY = "kinetoscope-timeline-below";
const LEAST = 96;
const LINE = 30;
/** Sentence, tools and margins above the picture. */
const HEAD = 84;
/** Share of the window that the picture has until the border is moved. */
const PICTURE = 0.66;

export interface Place {
  readonly folded: boolean;
  readonly summary: number;
  readonly panel: number;
  readonly area: number;
  readonly fold: () => void;
  readonly open: () => void;
  readonly resize: (height: number) => void;
}

/** `room` is what the window has for the view. What was chosen holds in this browser. */
export function usePlace(room: number): Place {
  const [chosen, set] = useState(() => recall(KEY));
  const choose = (text: string) => {
    keep(KEY, text);
    set(text);
  };
  const most = Math.max(LEAST, room - HEAD - 160);
  const free = room - HEAD - PICTURE * innerHeight;
  const height = Number(chosen.replace("folded", "")) || 0;
  const wanted = (otherwise: number) => Math.min(most, Math.max(LEAST, height || otherwise));
  return {
    folded: chosen.startsWith("folded") || (!height && free < LEAST + LINE && chosen !== "open"),
    summary: wanted(Math.min(free, 176)),
    area: wanted(Math.min(400, Math.max(240, 0.4 * room))),
    panel: wanted(Math.min(280, Math.max(200, 0.32 * room))),
    fold: () => choose(`folded${height || ""}`),
    open: () => choose(height ? String(height) : "open"),
    resize: (to) => choose(to < LEAST / 2 ? "folded" : String(Math.round(Math.min(most, Math.max(LEAST, to))))),
  };
}

/** Dragged, or moved by the arrow keys. */
export function Border({ summary, resize }: Place) {
  return (
    <div
      class="tl-border"
      role="separator"
      tabIndex={0}
      aria-orientation="horizontal"
      aria-label="Height of what is below the picture"
      aria-valuenow={Math.round(summary)}
      onPointerDown={(event) => {
        const below = event.currentTarget.nextElementSibling;
        if (!(below instanceof HTMLElement)) return;
        const from = event.clientY + below.offsetHeight;
        event.currentTarget.setPointerCapture(event.pointerId);
        event.currentTarget.onpointermove = (moved) => resize(from - moved.clientY);
      }}
      onPointerUp={(event) => (event.currentTarget.onpointermove = null)}
      onKeyDown={(event) => {
        const by = { ArrowUp: 24, ArrowDown: -24 }[event.key];
        if (!by) return;
        event.preventDefault();
        event.stopPropagation();
        const below = event.currentTarget.nextElementSibling;
        resize((below instanceof HTMLElement ? below.offsetHeight : summary) + by);
      }}
    />
  );
}
