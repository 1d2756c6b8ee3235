/** Perfetto's page, in a window of its own: ours if the server has it, else the public one, which is handed the trace. */

const PUBLIC = "https://ui.perfetto.dev";
const PATIENCE = 20000;

/** The server's own copy fetches the cut by itself. */
export function openOwn(cut: string): void {
  const address = new URL(cut, document.baseURI).href;
  window.open(
    `${new URL("perfetto/index.html", document.baseURI).href}#!/?url=${encodeURIComponent(address)}`,
    "_blank",
  );
}

/** Hands `bytes` to the public page by a message, as soon as it says that it listens. Call it from a click. */
export async function openPublic(bytes: Promise<ArrayBuffer>, title: string): Promise<void> {
  const opened = window.open(PUBLIC, "_blank");
  if (!opened) throw new Error("The browser did not open a window: allow this page to open one.");
  const [buffer] = await Promise.all([bytes, listening(opened)]);
  opened.postMessage({ perfetto: { buffer, title, fileName: "cut.json.gz" } }, PUBLIC, [buffer]);
}

function listening(opened: Window): Promise<void> {
  return new Promise((done, fail) => {
    const began = Date.now();
    const timer = setInterval(() => {
      if (opened.closed || Date.now() - began > PATIENCE)
        end(new Error(opened.closed ? "The window was closed." : "Perfetto's page does not answer."));
      else opened.postMessage("PING", PUBLIC);
    }, 100);
    const hear = (event: MessageEvent<unknown>) => {
      if (event.origin === PUBLIC && event.source === opened && event.data === "PONG") end(null);
    };
    const end = (error: Error | null) => {
      clearInterval(timer);
      removeEventListener("message", hear);
      if (error) fail(error);
      else done();
    };
    addEventListener("message", hear);
  });
}
