// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { live, useCollection, useConnection, useRoute, useSummary } from "./page";
import { Announcements } from "./parts/Announcements";
import { Banners } from "./parts/Banners";
import { Icon } from "./parts/Icon";
import { Empty, Loading } from "./parts/Notes";
import { links, titleOf, type Route, type ViewName } from "./route";
import { chooseTheme, useTheme } from "./theme";
import { Forbidden, SignIn } from "./views/Access";
import { ClusterView } from "./views/Cluster";
import { DecisionsView } from "./views/Decisions";
import { HistoryView } from "./views/History";
import { PlansView } from "./views/Plans";
import { PlanView } from "./views/Plan";
import { QueueView } from "./views/Queue";
import { TasksView } from "./views/Tasks";
import { TaskView } from "./views/Task";
import { WhatIfView } from "./views/WhatIf";

export function App(): JSX.Element {
  const route = useRoute();
  const connection = useConnection();
  const summary = useSummary();
  const main = useRef<HTMLElement>(null);
  useTitle(route);
  useFocusOnChange(route, main);
  if (connection.state === "unauthorized") return <Gate title="Sign in"><SignIn message={connection.message} /></Gate>;
  if (connection.state === "forbidden") return <Gate title="Not allowed"><Forbidden message={connection.message} /></Gate>;
  const isStale = connection.state === "lost" || summary?.connected === false;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
      <Header route={route} />
      <Banners connection={connection} summary={summary} />
      <main id="main" ref={main} tabIndex={-1} class={isStale ? "stale" : ""}>
        {live.store.complete ? <View route={route} /> : connection.state !== "lost" && <Loading what="the cluster" />}
      </main>
      <Announcements />
    </>
  );
}

function View({ route }: { route: Route }): JSX.Element {
  switch (route.view) {
    case "cluster":
      return <ClusterView find={route.find} />;
    case "queue":
      return <QueueView />;
    case "tasks":
      return <TasksView />;
    case "task":
      return <TaskView key={`${route.namespace}/${route.name}`} namespace={route.namespace} name={route.name} />;
    case "whatif":
      return <WhatIfView from={route.from} />;
    case "plans":
      return <PlansView />;
    case "plan":
      return <PlanView key={route.name} name={route.name} />;
    case "history":
      return <HistoryView />;
    case "decisions":
      return <DecisionsView id={undefined} filter={route.filter} />;
    case "decision":
      return <DecisionsView id={route.id} filter={route.filter} />;
    case "unknown":
      return <><h1>Not found</h1><Empty>Page not found. <a href={links.cluster}>Go to the cluster.</a></Empty></>;
  }
}

const entries: { href: string; label: string; views: readonly ViewName[] }[] = [
  { href: links.cluster, label: "Cluster", views: ["cluster"] },
  { href: links.queue, label: "Queue", views: ["queue"] },
  { href: links.tasks, label: "Tasks", views: ["tasks", "task"] },
  { href: links.whatIf, label: "What if", views: ["whatif"] },
  { href: links.plans, label: "Plans", views: ["plans", "plan"] },
  { href: links.history, label: "History", views: ["history"] },
  { href: links.decisions, label: "Decisions", views: ["decisions", "decision"] },
];

function Header({ route }: { route: Route }): JSX.Element {
  const summary = useSummary();
  const nav = useRef<HTMLElement>(null);
  // On a narrow page the views are one line, which scrolls.
  useEffect(() => nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [route.view]);
  return (
    <header class="top">
      <a class="brand" href={links.cluster}><Brand /><span>GPU tasks</span></a>
      <nav aria-label="Views" ref={nav}>
        <ul>
          {entries.map(({ href, label, views }) => (
            <li key={href}>
              <a href={href} aria-current={views.includes(route.view) ? "page" : undefined}>{label}{label === "Plans" && <OpenPlans />}</a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="who">
        {summary && (
          <span class="server" title={`Cluster ${summary.server}${summary.user ? `, with the permissions of ${summary.user}` : ""}`}>
            {summary.context ? `${summary.context}, namespace ${summary.namespace}` : summary.server}
          </span>
        )}
        <ThemeButton />
      </div>
    </header>
  );
}

/** How many plans wait for somebody. */
function OpenPlans(): JSX.Element | null {
  const plans = useCollection("plans");
  const open = [...plans.rows.values()].filter((plan) => plan.phase === "Proposed" && !plan.approved && !plan.aborted).length;
  return open > 0 ? <span class="count-badge">{open}<span class="visually-hidden"> to approve</span></span> : null;
}

function ThemeButton(): JSX.Element {
  const theme = useTheme();
  const other = theme === "dark" ? "light" : "dark";
  return (
    <button type="button" class="icon-button" aria-label={`Use ${other} colours`} title={`Use ${other} colours`} onClick={() => chooseTheme(other)}>
      <Icon name={theme === "dark" ? "sun" : "moon"} />
    </button>
  );
}

function Brand(): JSX.Element {
  return (
    <svg viewBox="0 0 16 16" width="20" height="20" aria-hidden="true" focusable="false">
      <rect width="16" height="16" rx="3" fill="currentColor" />
      <path class="brand-cells" d="M3 3h4v4H3zM9 3h4v4H9zM3 9h4v4H3z" />
      <path class="brand-hollow" d="M9.5 9.5h3v3h-3z" />
    </svg>
  );
}

function Gate({ title, children }: { title: string; children: JSX.Element }): JSX.Element {
  useEffect(() => { document.title = `${title} – GPU tasks`; }, [title]);
  return <><header class="top"><span class="brand"><Brand /><span>GPU tasks</span></span><div class="who"><ThemeButton /></div></header><main id="main">{children}</main><Announcements /></>;
}

function useTitle(route: Route): void {
  const title = titleOf(route);
  useEffect(() => { document.title = `${title} – GPU tasks`; }, [title]);
}

/** Another view begins at its top, and is read from there. A step within the decisions is not another view. */
function useFocusOnChange(route: Route, main: { current: HTMLElement | null }): void {
  const view = route.view === "decision" ? "decisions" : route.view === "task" ? `${route.namespace}/${route.name}` : route.view === "plan" ? route.name : route.view;
  const [last, setLast] = useState(view);
  useEffect(() => {
    if (view === last) return;
    setLast(view);
    scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [view]);
}
