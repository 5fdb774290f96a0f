// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/http"
	"strconv"
	"time"
)

// timeoutHeader is how long the one who asks waits for the answer, in seconds.
const timeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"

// A probe ends before the one who asks gives up: by a quarter of that time, but
// not by more than margin.
const (
	margin      = 500 * time.Millisecond
	marginShare = 4
)

// timeout returns how long a probe may take.
func (h *Handler) timeout(job *Job, header http.Header) (time.Duration, error) {
	timeout := h.config.Timeout
	if job.Timeout > 0 {
		timeout = min(timeout, job.Timeout)
	}
	text := header.Get(timeoutHeader)
	if text == "" {
		return timeout, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds > 0) { // NaN is not greater than anything
		return 0, Refuse(http.StatusBadRequest, "%s: %q is no number of seconds", timeoutHeader, text)
	}
	if seconds > h.config.Timeout.Seconds()*2 { // more than a Duration can hold, maybe
		return timeout, nil
	}
	patience := time.Duration(seconds * float64(time.Second))
	return max(min(timeout, patience-min(margin, patience/marginShare)), time.Millisecond), nil
}
