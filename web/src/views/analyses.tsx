/** Whatever the library can answer, from the facts of each analysis alone: question, parameters, chart, table, method. */

import { useState } from "preact/hooks";
import { useAnswer } from "../api/ask";
import { runPath } from "../api/client";
import type { AnalysisFacts, AnalysisList, ParameterFacts } from "../api/answers";
import { scale } from "../base/numbers";
import { words } from "../base/text";
import { Context, type ViewProps } from "../base/props";
import { hashOf, changed, ofOneRank } from "../base/url";
import { ChartOf } from "../blocks/chart";
import { AnalysisTable } from "../blocks/table";
import { Failed, FailedHere, Waiting } from "../frame/states";
import { inWords } from "../grid/cells";

export function AllAnalyses(props: ViewProps) {
  const { data, error, again } = useAnswer<AnalysisList>("analyses");
  const [search, setSearch] = useState("");
  if (error) return <Failed error={error} again={again} />;
  if (!data) return <Waiting what="Asking what can be asked" />;
  const name = props.params["name"] ?? "";
  const facts = data.analyses[name];
  if (facts) {
    const of = facts.all_ranks ? props : { ...props, select: ofOneRank(props.select, props.about.rank) };
    return (
      <Context.Provider value={of}>
        <One key={name} {...of} name={name} facts={facts} />
      </Context.Provider>
    );
  }
  const found = (each: string) => {
    const of = data.analyses[each];
    return (
      of &&
      `${each} ${of.title} ${of.question}`
        .toLowerCase()
        .replaceAll("_", " ")
        .includes(search.toLowerCase().replaceAll("_", " "))
    );
  };
  return (
    <article class="page">
      <h1>Everything that can be asked of this run.</h1>
      <p class="sub">
        {Object.keys(data.analyses).length} analyses, each with its method and its limits. All obey the selection above.
      </p>
      <input
        type="search"
        class="search large"
        placeholder="Search questions"
        aria-label="Search questions"
        value={search}
        onInput={(event) => setSearch(event.currentTarget.value)}
      />
      <div class="catalogue">
        {data.groups.map((group) => {
          const names = group.names.filter(found);
          return (
            names.length > 0 && (
              <section class="block" key={group.title}>
                <h2>{group.title}</h2>
                <ul>
                  {names.map((each) => (
                    <li key={each}>
                      <a href={hashOf(changed(props.state, { params: { name: each } }))}>
                        <b>{data.analyses[each]?.title}</b>
                        <span>{words(data.analyses[each]?.question ?? "")}</span>
                      </a>
                    </li>
                  ))}
                </ul>
              </section>
            )
          );
        })}
      </div>
    </article>
  );
}

function One({
  name,
  facts,
  run,
  version,
  select,
  params,
  state,
  api,
  go,
}: ViewProps & { name: string; facts: AnalysisFacts }) {
  const own = Object.fromEntries(Object.entries(params).filter(([key]) => key !== "name"));
  const asked = { ...select, ...Object.fromEntries(Object.entries(own).map(([key, value]) => [`p.${key}`, value])) };
  const chart = useAnswer<Record<string, unknown>>(
    facts.chart ? runPath(run, "analyses", name, "chart") : null,
    asked,
    version,
  );
  const [, ...paragraphs] = facts.doc.split(/\n\s*\n/);
  return (
    <article class="page">
      <p class="crumb">
        <a
          href={hashOf(
            changed(state, {
              params: Object.fromEntries(Object.keys(params).map((key) => [key, null])),
              tables: Object.fromEntries(Object.keys(state.tables).map((key) => [key, null])),
            }),
          )}
        >
          All analyses
        </a>
      </p>
      <h1>{words(facts.question)}</h1>
      <p class="sub">
        {facts.title} · <code>{name}</code>
      </p>
      {facts.parameters.length > 0 && (
        <section class="block block-controls">
          <div class="controls">
            {facts.parameters.map((parameter) => (
              <Field
                key={parameter.name}
                parameter={parameter}
                value={own[parameter.name]}
                set={(value) => go({ params: { [parameter.name]: value } })}
                off={api.embedded}
              />
            ))}
          </div>
        </section>
      )}
      {chart.data && !chart.error && drawable(chart.data) && <ChartOf title="" spec={chart.data} />}
      {chart.error && chart.error.status !== 404 && <FailedHere error={chart.error} again={chart.again} />}
      <section class="block block-table">
        <AnalysisTable
          id={name}
          title="Answer"
          analysis={name}
          params={own}
          columns={[]}
          sort=""
          filter=""
          links={{}}
          tallest={640}
        />
      </section>
      <section class="block doc">
        {paragraphs.map((paragraph) => (
          <Paragraph key={paragraph} text={paragraph} />
        ))}
      </section>
      <section class="block doc">
        <h2>Columns</h2>
        <dl class="columns-doc">
          {facts.columns.map((column) => (
            <div key={column.name}>
              <dt>{inWords(column.name)}</dt>
              <dd>{words(column.doc)}</dd>
            </div>
          ))}
        </dl>
      </section>
    </article>
  );
}

/** A chart of nothing is no picture: the table says why. */
function drawable(spec: Readonly<Record<string, unknown>>): boolean {
  const values = (spec["data"] as { values?: unknown[] } | undefined)?.values;
  return values === undefined || values.length > 0;
}

function Paragraph({ text }: { text: string }) {
  const [, heading, rest] = /^(Method|How to read it|Limits|Args|Raises)[.:]\s*([\s\S]*)$/.exec(text.trim()) ?? [
    "",
    "",
    text,
  ];
  if (heading === "Args" || heading === "Raises") return null;
  const plain = (rest ?? "").replaceAll("``", "`").replace(/\s*\n\s*/g, " ");
  return (
    <>
      {heading && <h2>{heading}</h2>}
      <p class="words">{words(plain)}</p>
    </>
  );
}

interface FieldProps {
  readonly parameter: ParameterFacts;
  readonly value: string | undefined;
  readonly set: (value: string) => void;
  readonly off: boolean;
}

/** The field for a parameter, by its type; times are asked in the unit in which the default reads best. */
function Field({ parameter, value, set, off }: FieldProps) {
  const { name, type, doc, unit, choices } = parameter;
  const by = scale([typeof parameter.default === "number" ? parameter.default : null], unit);
  const label = (
    <span>
      {inWords(name)} {by.label && <small>({by.label})</small>}
    </span>
  );
  const usual = parameter.default === null || parameter.default === undefined ? "" : String(parameter.default);
  if (type === "bool") {
    const on = (value ?? usual).toLowerCase() === "true";
    return (
      <label class="control check" data-tip={doc}>
        <input
          type="checkbox"
          checked={on}
          disabled={off}
          onChange={() => set(String(!on) === usual.toLowerCase() ? "" : String(!on))}
        />
        {label}
      </label>
    );
  }
  if (choices.length)
    return (
      <label class="control" data-tip={doc}>
        {label}
        <select
          value={value ?? usual}
          disabled={off}
          onChange={(event) => set(event.currentTarget.value === usual ? "" : event.currentTarget.value)}
        >
          {choices.map((choice) => (
            <option key={choice}>{choice}</option>
          ))}
        </select>
      </label>
    );
  const number = type === "int" || type === "float";
  const shown = (text: string | undefined) =>
    number && text && by.divisor !== 1 ? String(+(Number(text) / by.divisor).toPrecision(12)) : (text ?? "");
  const entered = (text: string) => {
    const typed = text.trim().replace(",", number ? "." : ",");
    if (!number || !typed || by.divisor === 1) return typed;
    const exact = Number(typed) * by.divisor;
    return Number.isFinite(exact) ? String(type === "int" ? Math.round(exact) : exact) : typed;
  };
  return (
    <label class="control" data-tip={doc}>
      {label}
      <input
        value={shown(value)}
        placeholder={shown(usual) || "any"}
        disabled={off}
        inputMode={number ? "decimal" : "text"}
        onChange={(event) => set(entered(event.currentTarget.value))}
      />
    </label>
  );
}
