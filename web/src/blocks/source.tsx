/** A file with the time of its lines in the gutter; its text only where the server may read it. */

import { useState } from "preact/hooks";
import type { SourceText } from "../api/answers";
import type { Source } from "../api/blocks";
import { useAnswer } from "../api/ask";
import { runPath } from "../api/client";
import { colour } from "../base/colour";
import { inScale, scale } from "../base/numbers";
import { printable, words } from "../base/text";
import { keep, recall } from "../base/theme";
import { useProps } from "../base/props";
import { editorAddress, isWhole } from "../frame/follow";
import { Menu } from "../frame/menu";
import { Frame } from "./frame";

const AROUND = 40;

export function SourceBlock({ title, file, lines, note }: Source) {
  const { run, params, server, dark, api } = useProps();
  const wanted =
    Number(params["line"]) ||
    lines.reduce((best, each) => (each.total_time > (best?.total_time ?? -1) ? each : best), lines[0])?.line ||
    1;
  const may = server.features.source_roots === true && api.holds(runPath(run, "source"));
  const [around, setAround] = useState(AROUND);
  const text = useAnswer<SourceText>(may ? runPath(run, "source") : null, { file, line: wanted, around });
  const here = text.data?.file ?? file; // Where the server found it, as an editor on this machine finds it, too.
  const by = scale(
    lines.map((line) => line.total_time),
    "ns",
  );
  const most = Math.max(1, ...lines.map((line) => line.total_time));
  const timed = new Map(lines.map((line) => [line.line, line]));
  const shown =
    text.error || !text.data
      ? lines.map((line) => ({ number: line.line, text: null as string | null }))
      : text.data.lines.map((line, at) => ({ number: (text.data?.first ?? 1) + at, text: line }));
  return (
    <Frame
      title={title}
      note={note}
      name="source"
      tools={
        <>
          {isWhole(here, server) && (
            <a class="tool" href={editorAddress(here, wanted, server)}>
              Open in{" "}
              {recall("kinetoscope.editor") === "pycharm" ||
              (!recall("kinetoscope.editor") && server.features.editor === "pycharm")
                ? "PyCharm"
                : "VS Code"}
            </a>
          )}
          <Editor />
        </>
      }
    >
      <p class="file">
        <code>{printable(file)}</code>
      </p>
      {!may && (
        <p class="note">
          {words("The text of the file is not shown: `kinetoscope view PATH --source DIR` allows a folder.")}
        </p>
      )}
      {text.error && (
        <p class="note">
          {words(text.error.message)} {words(text.error.hint)}
        </p>
      )}
      <div class="code" role="table" tabIndex={0} aria-label={printable(file)}>
        <div class="code-head" role="row">
          <span role="columnheader" data-tip="Time in the line itself">
            self ({by.label})
          </span>
          <span role="columnheader" data-tip="Time in the line and all it calls">
            total ({by.label})
          </span>
          <span role="columnheader">line</span>
          <span role="columnheader" class="sr">
            code
          </span>
        </div>
        {shown.map(({ number, text: words }) => {
          const line = timed.get(number);
          return (
            <div
              class={`code-line${number === wanted ? " wanted" : ""}`}
              role="row"
              key={number}
              data-tip={line?.detail || undefined}
            >
              <span role="cell">{line ? inScale(by, line.self_time) : ""}</span>
              <span
                role="cell"
                style={
                  line
                    ? {
                        background: `linear-gradient(to left, color-mix(in srgb, ${colour("host", dark)} 40%, transparent) ${(100 * line.total_time) / most}%, transparent 0)`,
                      }
                    : {}
                }
              >
                {line ? inScale(by, line.total_time) : ""}
              </span>
              <span role="cell">
                {isWhole(here, server) ? (
                  <a href={editorAddress(here, number, server)} data-tip="Open in the editor">
                    {number}
                  </a>
                ) : (
                  number
                )}
              </span>
              <code role="cell" class={words === null ? "no-text" : ""}>
                {words === null ? (line?.detail ?? "") : printable(words.replaceAll("\t", "    "))}
              </code>
            </div>
          );
        })}
      </div>
      {text.data && !text.error && text.data.lines.length >= around && (
        <button class="button" onClick={() => setAround(around * 4)}>
          More of the file
        </button>
      )}
    </Frame>
  );
}

/** Which editor opens, and where files of a trace recorded elsewhere are here. Kept in this browser. */
function Editor() {
  const [editor, setEditor] = useState(recall("kinetoscope.editor"));
  const [map, setMap] = useState(recall("kinetoscope.map"));
  return (
    <Menu label="Paths" tip="Editor, and where files are on this machine">
      <div class="editor">
        <label>
          Editor
          <select
            value={editor}
            onChange={(event) => (
              setEditor(event.currentTarget.value),
              keep("kinetoscope.editor", event.currentTarget.value)
            )}
          >
            <option value="">as the server says</option>
            <option value="vscode">VS Code</option>
            <option value="pycharm">PyCharm</option>
          </select>
        </label>
        <label>
          Paths of the trace = paths here, one a line
          <textarea
            rows={3}
            value={map}
            placeholder="/workspace/train=/home/me/train"
            onInput={(event) => (setMap(event.currentTarget.value), keep("kinetoscope.map", event.currentTarget.value))}
          />
        </label>
      </div>
    </Menu>
  );
}
