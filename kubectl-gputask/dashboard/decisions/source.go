// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decisions reads the scheduler's journal for the page: from gpu-scheduler, with the credentials of the viewer,
// or from files.
package decisions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/pkg/journal"
)

const (
	// freshFor is how long a journal that was read is good for: viewers step through it.
	freshFor = 5 * time.Second
	// maxBytes bounds what is read, and timeout how long.
	maxBytes = 512 << 20
	timeout  = 30 * time.Second
	// maxDecisions is how many decisions are listed, the last ones.
	maxDecisions = 500
)

// Source is where a journal is: the URL of a gpu-scheduler's, or a file. It is safe for concurrent use.
type Source struct {
	place string
	url   *url.URL
	// insecure is true if the certificate of gpu-scheduler is not to be verified.
	insecure bool
	clock    clock.WithDelayedExecution

	mu sync.Mutex
	// known are the journals that were read last, by the viewer's token and name: each sees only what was read with
	// their credentials. They are dropped when they are no longer fresh.
	known map[string]*journal.Journal
}

// New returns the source at a place, https://… or the name of a file.
func New(place string, insecure bool, clock clock.WithDelayedExecution) (*Source, error) {
	s := &Source{place: place, insecure: insecure, clock: clock, known: map[string]*journal.Journal{}}
	if !strings.Contains(place, "://") {
		if _, err := os.Stat(place); err != nil {
			return nil, err
		}
		return s, nil
	}
	address, err := url.Parse(place)
	if err != nil || address.Scheme != "https" || address.Host == "" {
		return nil, errors.New("must be an https:// address such as https://127.0.0.1:10261/debug/gputask/journal, or a file")
	}
	s.url = address
	return s, nil
}

// Decisions returns the last of the decisions that a filter selects, the newest last.
func (s *Source) Decisions(ctx context.Context, viewer *access.Viewer, filter *rows.DecisionFilter) (*rows.Journal, error) {
	read, err := s.read(ctx, viewer)
	switch {
	case errors.Is(err, journal.ErrEmpty):
		return rows.JournalOf(nil, filter, maxDecisions), nil
	case err != nil:
		return nil, err
	default:
		return rows.JournalOf(read.Decisions(), filter, maxDecisions), nil
	}
}

// Step returns a decision with the cluster right before it.
func (s *Source) Step(ctx context.Context, viewer *access.Viewer, id int) (*rows.JournalStep, error) {
	read, err := s.read(ctx, viewer)
	switch {
	case errors.Is(err, journal.ErrEmpty):
		return nil, nil //nolint:nilnil // there is no decision yet
	case err != nil:
		return nil, err
	}
	decision, err := read.Decision(id)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // there is no such decision any more
	}
	state, err := read.Before(id)
	if err != nil {
		return nil, err
	}
	return rows.StepRow(decision, state), nil
}

// read reads the journal, unless that was done just now.
func (s *Source) read(ctx context.Context, viewer *access.Viewer) (*journal.Journal, error) {
	key := viewer.Name + "\x00" + viewer.Clients.Config.BearerToken
	s.mu.Lock()
	defer s.mu.Unlock() // a journal is large: one is read at a time
	if known, found := s.known[key]; found {
		return known, nil
	}
	from, err := s.open(ctx, viewer)
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }()
	read, err := journal.Read(io.LimitReader(from, maxBytes))
	if err != nil {
		return nil, fmt.Errorf("the scheduler's journal can't be read: %w", err)
	}
	s.known[key] = read
	s.clock.AfterFunc(freshFor, func() { // it is large, and perhaps nobody asks again
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.known, key)
	})
	return read, nil
}

func (s *Source) open(ctx context.Context, viewer *access.Viewer) (io.ReadCloser, error) {
	if s.url == nil {
		return os.Open(s.place)
	}
	config := rest.CopyConfig(viewer.Clients.Config)
	config.Timeout = timeout
	if s.insecure {
		config.Insecure, config.CAFile, config.CAData = true, "", nil
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the scheduler's journal can't be reached: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	_ = response.Body.Close()
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("you may not read the scheduler's journal: the ClusterRole gpu-journal-view allows to get %s", s.url.Path)
	default:
		return nil, fmt.Errorf("the scheduler's journal can't be read: %s", response.Status)
	}
}
