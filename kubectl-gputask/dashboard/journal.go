// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"net/http"
	"strconv"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
)

// Journal has the scheduler's last decisions.
type Journal interface {
	// Decisions returns them, as far as the viewer may see them.
	Decisions(ctx context.Context, viewer *access.Viewer) (*rows.Journal, error)
	// Step returns one of them, with the cluster right before it; nil if there is none.
	Step(ctx context.Context, viewer *access.Viewer, id int) (*rows.JournalStep, error)
}

func (s *Server) journal(_ http.ResponseWriter, r *http.Request, viewer *access.Viewer) (*rows.Journal, error) {
	if s.options.Journal == nil {
		return &rows.Journal{Decisions: []rows.Decision{}, Missing: "The address of the scheduler's journal is not set (--journal)."}, nil
	}
	list, err := s.options.Journal.Decisions(r.Context(), viewer)
	if err != nil {
		return &rows.Journal{Decisions: []rows.Decision{}, Missing: err.Error()}, nil //nolint:nilerr // the page shows it
	}
	return list, nil
}

func (s *Server) journalStep(_ http.ResponseWriter, r *http.Request, viewer *access.Viewer) (*rows.JournalStep, error) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || s.options.Journal == nil {
		return nil, failed(http.StatusNotFound, "There is no such decision.")
	}
	step, err := s.options.Journal.Step(r.Context(), viewer, id)
	switch {
	case err != nil:
		return nil, failed(http.StatusBadGateway, "%v", err)
	case step == nil:
		return nil, failed(http.StatusNotFound, "Decision %d is no longer in the journal.", id)
	default:
		return step, nil
	}
}
