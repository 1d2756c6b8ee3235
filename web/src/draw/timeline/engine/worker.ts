/** The painter in its worker. */

import { Engine } from "./engine";
import type { ToPainter } from "./types";

interface Scope {
  postMessage(message: unknown, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToPainter>) => void) | null;
}

const scope = self as unknown as Scope;
const engine = new Engine((message, transfer = []) => scope.postMessage(message, transfer));
scope.onmessage = (event) => engine.tell(event.data);
