// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import "time"

// timeText formats a time for messages as RFC 3339 in UTC: programs that show them find it, and can show it in the
// reader's zone.
func timeText(at time.Time) string { return at.UTC().Format(time.RFC3339) }
