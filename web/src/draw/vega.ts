/** All that the page takes of Vega, as a script of its own: loaded with the first chart. */

import { expressionInterpreter } from "vega-interpreter";
import { logger, None, parse, View, type Spec } from "vega";
import { compile, type TopLevelSpec } from "vega-lite";

/** Draws `spec` into `element`. Nothing is loaded from anywhere, no code is made of text, tips are the page's own. */
export async function draw(
  element: HTMLElement,
  spec: unknown,
  config: object,
  tip: (text: string, event: MouseEvent) => void,
): Promise<View> {
  const compiled = compile(spec as TopLevelSpec, { config: config as never, logger: logger(None) as never })
    .spec as Spec;
  const refuse = () => Promise.reject(new Error("a chart may load nothing"));
  const view = new View(parse(compiled, undefined, { ast: true }), {
    expr: expressionInterpreter,
    logLevel: None,
    renderer: "svg",
    hover: true,
    loader: { load: refuse, sanitize: refuse, http: refuse, file: refuse } as never,
    tooltip: (_handler: unknown, event: MouseEvent, _item: unknown, value: unknown) => tip(lines(value), event),
  } as never);
  view.initialize(element);
  await view.runAsync();
  element.querySelector("svg")?.setAttribute("aria-hidden", "true"); // What holds it is the picture, and has its name.
  return view;
}

/** What a mark says: its fields, a line each. */
function lines(value: unknown): string {
  if (value === null || value === undefined || value === "") return "";
  if (typeof value !== "object") return String(value);
  return Object.entries(value)
    .filter(([, said]) => said !== null && said !== "")
    .map(([name, said]) => `${name}: ${said}`)
    .join("\n");
}
