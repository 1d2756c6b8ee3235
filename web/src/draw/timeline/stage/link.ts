/** The page's end of the line to the painter: in a worker where canvases can be drawn in one, else on the page. */

import { Engine } from "../engine/engine";
import type { TimelineLanes } from "../../../api/answers";
import type { FromPainter, InView, Mark, Scene, ToPainter, Wanted } from "../engine/types";
import PainterWorker from "../engine/worker?worker&inline";

export interface Heard {
  readonly drawn: (facts: { ms: number; waiting: number; bytes: number; failed: string }) => void;
  /** What of each lane is in view, asked for by `look`. */
  readonly used: (lanes: readonly InView[]) => void;
  /** Bytes of a tile, where the painter cannot ask the server itself. */
  readonly tile: (wanted: Wanted) => Promise<ArrayBuffer>;
}

export class PainterLink {
  private readonly worker: Worker | null;
  private readonly engine: Engine | null;
  private readonly answers = new Map<number, (mark: Mark | null) => void>();
  private readonly pictures = new Map<number, (blob: Blob | null) => void>();
  private last = 0;

  constructor(
    base: HTMLCanvasElement,
    over: HTMLCanvasElement,
    tiles: string | null,
    private readonly heard: Heard,
  ) {
    this.worker = made();
    if (this.worker) {
      this.engine = null;
      this.worker.onmessage = (event: MessageEvent<FromPainter>) => this.hear(event.data);
      const canvases = [base.transferControlToOffscreen(), over.transferControlToOffscreen()] as const;
      this.worker.postMessage({ say: "open", base: canvases[0], over: canvases[1], tiles }, [...canvases]);
    } else {
      this.engine = new Engine((message) => this.hear(message));
      this.engine.tell({ say: "open", base, over, tiles });
    }
  }

  get apart(): boolean {
    return this.worker !== null;
  }

  private tell(message: ToPainter, transfer: Transferable[] = []): void {
    if (this.worker) this.worker.postMessage(message, transfer);
    else this.engine?.tell(message);
  }

  private hear(message: FromPainter): void {
    if (message.say === "answer") {
      this.answers.get(message.id)?.(message.mark);
      this.answers.delete(message.id);
    } else if (message.say === "picture") {
      this.pictures.get(message.id)?.(message.blob);
      this.pictures.delete(message.id);
    } else if (message.say === "drawn") this.heard.drawn(message);
    else if (message.say === "used") this.heard.used(message.lanes);
    else if (message.say === "need") {
      const { key, wanted } = message;
      this.heard.tile(wanted).then(
        (bytes) => this.tell({ say: "tile", key, bytes, error: "" }, [bytes]),
        (error: unknown) =>
          this.tell({
            say: "tile",
            key,
            bytes: null,
            error: error instanceof Error ? error.message : String(error),
          }),
      );
    }
  }

  lanes(lanes: TimelineLanes): void {
    this.tell({ say: "lanes", lanes });
  }

  scene(scene: Partial<Scene>): void {
    this.tell({ say: "scene", scene });
  }

  look(): void {
    this.tell({ say: "look" });
  }

  hit(
    rank: number,
    lane: string,
    depth: number,
    time: number,
    slack: number,
    strip: "upper" | "lower" | null = null,
  ): Promise<Mark | null> {
    return new Promise((done) => {
      this.answers.set(++this.last, done);
      this.tell({ say: "hit", id: this.last, rank, lane, depth, time, slack, strip });
    });
  }

  beside(mark: Mark, side: "next" | "previous"): Promise<Mark | null> {
    return new Promise((done) => {
      this.answers.set(++this.last, done);
      this.tell({ say: "beside", id: this.last, mark, side });
    });
  }

  picture(): Promise<Blob | null> {
    return new Promise((done) => {
      this.pictures.set(++this.last, done);
      this.tell({ say: "picture", id: this.last });
    });
  }

  close(): void {
    this.tell({ say: "close" });
    this.worker?.terminate();
  }
}

function made(): Worker | null {
  if (typeof Worker === "undefined" || !("transferControlToOffscreen" in HTMLCanvasElement.prototype)) return null;
  try {
    return new PainterWorker({ name: "timeline" });
  } catch {
    return null;
  }
}
