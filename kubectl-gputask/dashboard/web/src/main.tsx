// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import { render } from "preact";

import "./app.css";

import { App } from "./app";
import { taskColours } from "./map/colours";
import { live } from "./page";
import { startTheme } from "./theme";
import { takeTokenFromAddress } from "./token";

takeTokenFromAddress();
// The address may be opened once more in the same tab, with the token of a server that was started anew.
addEventListener("hashchange", () => { if (takeTokenFromAddress()) live.restart(); }, true);
startTheme();
live.store.subscribe(["nodes"], () => taskColours.update(live.store.rows.nodes.values()));
live.start();
render(<App />, document.body);
