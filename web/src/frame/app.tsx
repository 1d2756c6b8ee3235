/** The page: header, navigation, and the view that the address names. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { useAnswer } from "../api/ask";
import { api, runPath } from "../api/client";
import type { ListedRun, ListedRuns, RunInfo, ServerInfo } from "../api/answers";
import { useKeys } from "../base/keyboard";
import { Context, type ViewProps } from "../base/props";
import { printable, words } from "../base/text";
import { useDark } from "../base/theme";
import { go, useUrl } from "../base/url";
import { View } from "../views/view";
import { follow } from "./follow";
import { Guard } from "./guard";
import { Header } from "./header";
import { Help } from "./help";
import { Nav, pagesOf } from "./nav";
import { Palette } from "./palette";
import { Runs } from "./pickers";
import { Progress } from "./progress";
import { Damage, Failed, Narrowed, Waiting } from "./states";

const POLL = 5000;

export function App() {
  const state = useUrl();
  const dark = useDark();
  const server = useAnswer<ServerInfo>("server");
  const runs = useAnswer<ListedRuns>("runs");
  const listed = runs.data?.runs ?? [];
  const chosen = listed.find((run) => run.id === state.run);
  const about = useAnswer<RunInfo>(
    chosen && chosen.state !== "error" ? runPath(chosen.id) : null,
    {
      rank: state.select.rank,
      cycle: state.select.cycle,
      steps_by: state.select.steps_by,
    },
    chosen?.version,
  );
  const [help, setHelp] = useState(false);
  const [menu, setMenu] = useState(false);
  const [palette, setPalette] = useState(false);

  useEffect(() => {
    if (api.embedded) return;
    const timer = setInterval(() => document.visibilityState === "visible" && runs.again(), POLL);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    const first = listed.find((run) => run.state === "ready") ?? listed[0];
    if (first && !state.run) go({ run: first.id }, { replace: true });
    // The first view depends on what the run is; one that cannot be read has none.
    else if (state.run && !state.view && (about.data?.id === state.run || about.error || chosen?.state === "error"))
      go({ view: about.data?.first_view || "overview" }, { replace: true });
  }, [listed.length > 0, state.run, state.view, about.data, about.error, chosen?.state]);
  // A run may have come since the list was asked for.
  useEffect(() => {
    if (runs.data && state.run && !chosen && !api.embedded) runs.again();
  }, [state.run]);
  useEffect(() => setMenu(false), [state.view, state.run]);
  const everywhere = { does: "go to anything, or do it", run: () => setPalette(true) };
  useKeys({ "?": { does: "this list", run: () => setHelp(!help) }, "Ctrl K": everywhere }, "Everywhere", "page");
  useEffect(() => {
    const open = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey || event.key.toLowerCase() !== "k")
        return;
      event.preventDefault();
      setPalette((now) => !now);
    };
    addEventListener("keydown", open);
    return () => removeEventListener("keydown", open);
  }, []);

  const pages = pagesOf(server.data);
  const title = pages.find((page) => page.name === state.view)?.title ?? "";
  useEffect(() => {
    document.title = [title, chosen && printable(chosen.name), "Kinetoscope"].filter(Boolean).join(" · ");
  }, [title, chosen?.name]);

  const facts = server.data ?? NOTHING;
  const props = useMemo<ViewProps | null>(
    () =>
      about.data && chosen && about.data.id === chosen.id && state.view
        ? {
            run: chosen.id,
            version: chosen.version,
            about: about.data,
            select: state.select,
            params: state.params,
            state,
            api,
            server: facts,
            dark,
            go,
            follow,
          }
        : null,
    [about.data, chosen?.id, chosen?.version, location.hash, dark, server.data],
  );

  // The same element as before is not drawn again: the page asks for the list of runs every few seconds.
  const view = useMemo(
    () =>
      props && (
        <Context.Provider value={props}>
          {props.about.damage && <Damage said={props.about.damage} more={props.about.notes} />}
          {props.state.view !== "timeline" && <Narrowed select={props.select} />}
          <Guard key={props.state.view}>
            <View {...props} />
          </Guard>
        </Context.Provider>
      ),
    [props],
  );

  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}
      >
        Skip to the view
      </a>
      <Header
        state={state}
        runs={listed}
        about={about.error ? undefined : about.data}
        page={pages.find((page) => page.name === state.view)}
        toggle={() => setMenu(!menu)}
        menu={menu}
        help={() => setHelp(true)}
        find={() => setPalette(true)}
      />
      <Progress run={state.run} />
      <div class="body">
        <Nav state={state} pages={pages} views={about.data?.views} open={menu} close={() => setMenu(false)} />
        <main id="main" tabIndex={-1} class={`view-${state.view}`}>
          {runs.error && runs.data && (
            <p class="away" role="status">
              {words(`${runs.error.message} What stands here is from before; it goes on by itself.`)}
            </p>
          )}
          {runs.error && !runs.data ? (
            <Failed error={runs.error} />
          ) : runs.data && !listed.length ? (
            <Empty wrong={runs.data.wrong ?? []} />
          ) : runs.data && state.run && !chosen ? (
            <Unknown run={state.run} runs={listed} />
          ) : chosen?.state === "error" ? (
            <Failed
              error={{ message: chosen.error, hint: "The page shows it as soon as it can be read." }}
              title={`${chosen.name} cannot be read`}
            />
          ) : about.error && !about.data ? (
            <Failed error={about.error} again={about.again} />
          ) : props ? (
            view
          ) : (
            <Waiting what="Reading the run" />
          )}
        </main>
      </div>
      {help && <Help close={() => setHelp(false)} />}
      {palette && (
        <Palette
          state={state}
          pages={pages}
          runs={listed}
          about={about.error ? undefined : about.data}
          keys={() => setHelp(true)}
          close={() => setPalette(false)}
        />
      )}
    </>
  );
}

const NOTHING: ServerInfo = {
  version: "",
  auth: false,
  features: { source_roots: false, perfetto: false, editor: "" },
  maps: [],
  pages: [],
};

function Unknown({ run, runs }: { run: string; runs: readonly ListedRun[] }) {
  return (
    <section class="page">
      <h1>
        There is no run <code>{printable(run)}</code> here.
      </h1>
      <p class="sub">It was moved or removed, or the address is of another server. These are here:</p>
      <section class="block chooser">
        <Runs runs={runs} chosen="" choose={(id) => go({ run: id })} />
      </section>
    </section>
  );
}

function Empty({ wrong }: { wrong: readonly string[] }) {
  return (
    <section class="page">
      <h1>No run is here yet.</h1>
      {wrong.map((each) => (
        <p class="note" role="alert" key={each}>
          {printable(each)}
        </p>
      ))}
      <p class="sub">
        New ones appear by themselves: record a few steps with <code>torch.profiler</code> and write them below the
        folder that
        <code>kinetoscope view</code> was started with.
      </p>
    </section>
  );
}
