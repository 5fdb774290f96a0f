// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { live } from "../page";
import { Command } from "../parts/Copy";
import { Icon } from "../parts/Icon";
import { keepToken } from "../token";

/** Asks for a token. */
export function SignIn({ message }: { message: string }): JSX.Element {
  const [token, setToken] = useState("");
  const send = (event: SubmitEvent) => {
    event.preventDefault();
    if (token.trim() === "") return;
    keepToken(token);
    live.restart();
  };
  return (
    <section class="card gate" aria-labelledby="gate">
      <h1 id="gate">Sign in</h1>
      <p>The address that <code>kubectl gputask dashboard</code> prints has a token. Open it as it is printed, including everything after the “#”.</p>
      <p>If this page runs in a cluster, sign in with a Kubernetes token. This command creates one for a ServiceAccount:</p>
      <Command text="kubectl create token NAME" />
      <div role="status">{message !== "" && <p class="note attention"><Icon name="info" /><span>{message}</span></p>}</div>
      <form onSubmit={send}>
        <label class="field column">
          <span>Token</span>
          <input type="password" autocomplete="off" spellcheck={false} value={token} onInput={(event) => setToken(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary" disabled={token.trim() === ""}>Sign in</button>
      </form>
    </section>
  );
}

/** Says which right is missing. */
export function Forbidden({ message }: { message: string }): JSX.Element {
  const forget = () => {
    keepToken("");
    live.restart();
  };
  return (
    <section class="card gate" aria-labelledby="gate">
      <h1 id="gate"><Icon name="forbidden" />You may not see this page</h1>
      <p class="lead" role="alert">{message}</p>
      <p class="hint">Once you have the right, the page appears by itself.</p>
      <p><button type="button" onClick={forget}>Sign in with another token</button></p>
    </section>
  );
}
