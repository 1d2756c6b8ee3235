/** A canvas as wide as there is room, sharp on any screen, drawn again when what it shows changes. */

import { useEffect, useRef } from "preact/hooks";
import type { Pen } from "./pen";
import { useWidth } from "./picture";

interface Props {
  readonly height: number;
  readonly label: string;
  /** Draws in CSS px. */
  readonly draw: (context: Pen, width: number) => void;
  readonly canvas?: { current: HTMLCanvasElement | null };
  readonly on?: {
    readonly move?: (x: number, y: number, event: PointerEvent) => void;
    readonly down?: (x: number, y: number, event: PointerEvent) => void;
    readonly up?: (x: number, y: number, event: PointerEvent) => void;
    readonly leave?: () => void;
    readonly click?: (x: number, y: number, event: MouseEvent) => void;
    readonly key?: (event: KeyboardEvent) => void;
    readonly wheel?: (x: number, event: WheelEvent) => void;
  };
}

export function Canvas({ height, label, draw, canvas, on = {} }: Props) {
  const [ref, width] = useWidth<HTMLDivElement>();
  const own = useRef<HTMLCanvasElement | null>(null);
  useEffect(() => {
    const element = own.current;
    const context = element?.getContext("2d");
    if (!element || !context || !width) return;
    const ratio = devicePixelRatio || 1;
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.textBaseline = "middle";
    draw(context, width);
  });
  const at = (event: MouseEvent): [number, number] => [event.offsetX, event.offsetY];
  return (
    <div class="picture" ref={ref} style={{ height: `${height}px` }}>
      <canvas
        ref={(element) => {
          own.current = element;
          if (canvas) canvas.current = element;
        }}
        style={{ width: `${width}px`, height: `${height}px` }}
        role="img"
        aria-label={label}
        tabIndex={on.key ? 0 : -1}
        onPointerMove={(event) => on.move?.(...at(event), event)}
        onPointerDown={(event) => on.down?.(...at(event), event)}
        onPointerUp={(event) => on.up?.(...at(event), event)}
        onPointerLeave={() => on.leave?.()}
        onClick={(event) => on.click?.(...at(event), event)}
        onKeyDown={(event) => on.key?.(event)}
        onWheel={(event) => on.wheel?.(event.offsetX, event)}
      />
    </div>
  );
}

/** The canvas on the colour of the page, as PNG. */
export function pngOf(canvas: HTMLCanvasElement | null, background: string): Promise<Blob | null> {
  const copy = document.createElement("canvas");
  const context = copy.getContext("2d");
  if (!canvas || !context) return Promise.resolve(null);
  copy.width = canvas.width;
  copy.height = canvas.height;
  context.fillStyle = background;
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(canvas, 0, 0);
  return new Promise((done) => copy.toBlob(done));
}

/** Buttons that zoom in and out and show all again; without `all` nothing is zoomed. */
export function ZoomTools({
  zoom,
  all,
  words = ["Zoom in", "Zoom out"],
}: {
  readonly zoom: (closer: boolean) => void;
  readonly all?: (() => void) | undefined;
  readonly words?: readonly [string, string];
}) {
  return (
    <>
      <button class="tool" aria-label={words[0]} onClick={() => zoom(true)}>
        +
      </button>
      <button class="tool" aria-label={words[1]} disabled={!all} onClick={() => zoom(false)}>
        −
      </button>
      <button class="tool" disabled={!all} onClick={all}>
        All
      </button>
    </>
  );
}
