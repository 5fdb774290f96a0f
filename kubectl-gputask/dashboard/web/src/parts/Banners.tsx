// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";

import type { Summary } from "../api";
import { list } from "../format";
import type { Connection } from "../live";
import { Icon } from "./Icon";
import { Time } from "./Time";

/** Says what keeps the page from being up to date. */
export function Banners({ connection, summary }: { connection: Connection; summary: Summary | undefined }): JSX.Element {
  const lost = connection.state === "lost";
  return (
    <>
      <div class="banners" role="status">
        {lost && (
          <p class="banner"><Icon name="plug" /><span>The connection to the page's server is lost; trying again. {connection.message}</span></p>
        )}
        {!lost && summary?.connected === false && (
          <p class="banner">
            <Icon name="warning" />
            <span>{summary.trouble || "The cluster can't be reached."}{summary.troubleSince && <> Showing data from <Time at={summary.troubleSince} />.</>}</span>
          </p>
        )}
      </div>
      {summary && <Gaps summary={summary} />}
    </>
  );
}

/** Says what is not shown, so that nobody takes it for not being there. */
function Gaps({ summary }: { summary: Summary }): JSX.Element | null {
  const hidden = list(summary.hidden);
  const problems = list(summary.problems);
  if (hidden.length + problems.length === 0) return null;
  return (
    <aside class="gaps" aria-label="What is not shown">
      {hidden.map((sentence) => <p key={sentence}><Icon name="info" /><span>{sentence}</span></p>)}
      {problems.length > 0 && (
        <details>
          <summary>{problems.length === 1 ? "1 object could not be read" : `${problems.length} objects could not be read`}</summary>
          <ul class="sentences">{problems.map((problem) => <li key={problem}>{problem}</li>)}</ul>
        </details>
      )}
    </aside>
  );
}
