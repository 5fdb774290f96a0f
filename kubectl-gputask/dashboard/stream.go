// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
)

const (
	// admitPeriod is how often it is asked again whether a viewer may see what is streamed.
	admitPeriod = 30 * time.Second
	// keepAlivePeriod is how often something is sent if nothing has changed, so that neither side takes the other for
	// gone.
	keepAlivePeriod = 10 * time.Second
	// writeTimeout is for viewers that don't read.
	writeTimeout = 30 * time.Second
)

// stream writes a response that goes on, if the viewer likes compressed.
type stream struct {
	control *http.ResponseController
	out     io.Writer
	zip     *gzip.Writer
}

func newStream(w http.ResponseWriter, r *http.Request, contentType string) *stream {
	s := &stream{control: http.NewResponseController(w), out: w}
	w.Header().Set("Content-Type", contentType)
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && !isLoopback(r) {
		w.Header().Set("Content-Encoding", "gzip")
		s.zip, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // fails for unknown levels only
		s.out = s.zip
	}
	return s
}

// isLoopback reports whether a request comes over a line that costs nothing.
func isLoopback(r *http.Request) bool {
	return strings.HasPrefix(r.RemoteAddr, "127.") || strings.HasPrefix(r.RemoteAddr, "[::1]")
}

// write writes text that the viewer is to have at once.
func (s *stream) write(format string, values ...any) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)) //nolint:forbidigo // deadlines of connections are times of the system
	if _, err := fmt.Fprintf(s.out, format, values...); err != nil {
		return err
	}
	if s.zip != nil {
		if err := s.zip.Flush(); err != nil {
			return err
		}
	}
	return s.control.Flush()
}

// live streams the rows and their changes as server-sent events.
func (s *Server) live(w http.ResponseWriter, r *http.Request, _ *access.Viewer) error {
	defer s.feed.enter()()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	go s.admitAgain(ctx, cancel, senderOf(r))
	out := newStream(w, r, "text/event-stream")
	viewer := s.feed.document.NewViewer()
	for {
		limited, stop := context.WithTimeoutCause(ctx, keepAlivePeriod, errQuiet)
		text, err := viewer.Next(limited)
		stop()
		switch {
		case err == nil:
			err = out.write("event: update\ndata: %s\n\n", text)
		case errors.Is(err, errQuiet):
			err = out.write(": nothing has changed\n\n")
		default:
			return nil
		}
		if err != nil {
			return nil // the viewer has gone
		}
	}
}

var errQuiet = errors.New("nothing has changed")

// admitAgain ends a stream when its viewer may no longer see it. The page then connects again, and is told why it may
// not.
func (s *Server) admitAgain(ctx context.Context, end context.CancelCauseFunc, sender access.Sender) {
	cluster.Every(ctx, s.options.Clock, admitPeriod, func() {
		var refusal *access.RefusedError
		if _, err := s.options.Gate.Admit(ctx, sender); errors.As(err, &refusal) {
			end(err)
		}
	})
}
