// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/http"
	"strconv"
	"time"
)

// timeoutHeader is the header with the client's timeout, in seconds.
const timeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"

// A probe ends before the client's timeout: by a quarter of it, but at most by margin.
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
		return 0, Refuse(http.StatusBadRequest, "%s: %q is not a number of seconds", timeoutHeader, text)
	}
	if seconds > h.config.Timeout.Seconds()*2 { // more than a Duration can hold, maybe
		return timeout, nil
	}
	clientTimeout := time.Duration(seconds * float64(time.Second))
	return max(min(timeout, clientTimeout-min(margin, clientTimeout/marginShare)), time.Millisecond), nil
}
