// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/history"
	"falldio.github.io/gpu-controller/kubectl-gputask/whatif"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Options configure a Server.
type Options struct {
	// Clients watch the cluster for all viewers.
	Clients *cluster.Clients
	Levels  snapshot.Levels
	// Gate admits viewers.
	Gate access.Gate
	// Hosts are the names, with or without a port, under which the page is served; empty for any.
	Hosts []string
	// Personal is true for a page of one user, User, who may see less than the whole cluster.
	Personal bool
	User     string
	// MetricsURLs are asked how busy the GPUs are; without any, the node agents are.
	MetricsURLs []string
	// Prometheus is asked for the history; nil for none.
	Prometheus *history.Prometheus
	// Journal has the scheduler's decisions; nil for none.
	Journal Journal
	HTTP    *http.Client
	Clock   clock.WithTicker
	// Files are those of the page.
	Files fs.FS
}

// Server serves the page.
type Server struct {
	options Options
	feed    *feed
	reports *reports
	handler http.Handler
}

// New returns a server, which watches the cluster from Serve on.
func New(options Options) *Server {
	s := &Server{options: options, reports: newReports(options.Clock)}
	s.feed = newFeed(&s.options)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/live", s.admitted(s.live))
	mux.HandleFunc("GET /api/tasks/{namespace}/{name}", answered(s, s.task))
	mux.HandleFunc("GET /api/tasks/{namespace}/{name}/logs", s.admitted(s.logs))
	mux.HandleFunc("POST /api/tasks", answered(s, s.createTask))
	mux.HandleFunc("POST /api/tasks/{namespace}/{name}/{action}", answered(s, s.changeTask))
	mux.HandleFunc("POST /api/plans/{name}/{action}", answered(s, s.changePlan))
	mux.HandleFunc("GET /api/gpus/{node}/{index}", answered(s, s.gpu))
	mux.HandleFunc("POST /api/whatif", answered(s, s.whatIf))
	mux.HandleFunc("GET /api/history", answered(s, s.history))
	mux.HandleFunc("GET /api/history/{dimension}", answered(s, s.splitHistory))
	mux.HandleFunc("GET /api/journal", answered(s, s.journal))
	mux.HandleFunc("GET /api/journal/{id}", answered(s, s.journalStep))
	mux.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "The server does not know this request; it may have another version than the page: reload the page.")
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	files := http.FileServerFS(options.Files)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			fail(w, http.StatusMethodNotAllowed, "The page can only be read.")
			return
		}
		files.ServeHTTP(w, r)
	})
	s.handler = s.guard(mux)
	return s
}

const (
	headerTimeout = 10 * time.Second
	// bodyTimeout is for slow lines: a request's body has up to a MiB.
	bodyTimeout = time.Minute
	idleTimeout = 2 * time.Minute
	maxHeader   = 64 << 10
	// stopTimeout is for requests that are under way when the server ends.
	stopTimeout = 3 * time.Second
)

// Handler returns what answers the requests, for tests.
func (s *Server) Handler() http.Handler { return s.handler }

// Run watches the cluster until ctx ends. It fails if the cluster can't be seen at the beginning.
func (s *Server) Run(ctx context.Context) error { return s.feed.run(ctx) }

// Serve serves the page until ctx ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	return s.serve(ctx, func(server *http.Server) error { return server.Serve(listener) })
}

// ServeTLS serves the page with TLS until ctx ends.
func (s *Server) ServeTLS(ctx context.Context, listener net.Listener, config *tls.Config) error {
	return s.serve(ctx, func(server *http.Server) error {
		server.TLSConfig = config
		return server.ServeTLS(listener, "", "")
	})
}

func (s *Server) serve(ctx context.Context, serve func(*http.Server) error) error {
	// Streams are told that ctx ends: Shutdown does not end them.
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := server.Shutdown(limited); err != nil {
			klog.FromContext(ctx).V(1).Info("Requests were cut off", "err", err)
		}
	}()
	err := serve(server)
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}

// failure is the answer to a request that failed.
type failure struct {
	Error string `json:"error"`
	// Fields are those of a manifest that are wrong.
	Fields []whatif.InvalidField `json:"fields,omitempty"`
}

// statusError is why a request failed, with the status of the answer.
type statusError struct {
	error
	status int
}

func failed(status int, format string, values ...any) error {
	return &statusError{fmt.Errorf(format, values...), status}
}

// done is the answer to a request that has changed something.
type done struct {
	Message string `json:"message"`
}

func fail(w http.ResponseWriter, status int, message string) {
	answerWith(w, status, failure{Error: message})
}

func answer(w http.ResponseWriter, value any) { answerWith(w, http.StatusOK, value) }

func answerWith(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"The answer can't be written."}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the viewer may have gone
}
