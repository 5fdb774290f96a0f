// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verdict tests that everybody says the same about why a task waits: causes are made on a real API server, and
// what the task's status, the commands and the page say is compared, with each other and with golden files.
package verdict
