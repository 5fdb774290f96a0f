// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { ComponentChildren, JSX } from "preact";

import { Icon } from "./Icon";

/** What went wrong; nothing without a message. */
export function Failed({ message }: { message: string }): JSX.Element {
  return <div role="alert">{message !== "" && <p class="note bad"><Icon name="warning" /><span>{message}</span></p>}</div>;
}

export function Note({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="note"><Icon name="info" /><span>{children}</span></p>;
}

/** What is shown in place of a list without items. */
export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="empty">{children}</p>;
}

export function Loading({ what }: { what: string }): JSX.Element {
  return <p class="empty" role="status">Loading {what} …</p>;
}
