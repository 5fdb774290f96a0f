// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { Icon } from "./Icon";

const shownFor = 8_000;
let show: (message: string) => void = () => {};

/** Tells the viewer, also one who listens, what has been done. */
export function announce(message: string): void {
  show(message);
}

export function Announcements(): JSX.Element {
  const [message, setMessage] = useState("");
  useEffect(() => {
    show = setMessage;
    return () => { show = () => {}; };
  }, []);
  useEffect(() => {
    if (message === "") return;
    const timer = setTimeout(() => setMessage(""), shownFor);
    return () => clearTimeout(timer);
  }, [message]);
  return (
    <div class="announcements" role="status">
      {message !== "" && <p><Icon name="check" />{message}</p>}
    </div>
  );
}
