// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboard tests the page of "kubectl gputask dashboard" as people see it: the real programs, a real API
// server, and a real browser. The tests need Chromium; without one they are skipped with a message, or fail with
// BROWSER_REQUIRED=1.
package dashboard
