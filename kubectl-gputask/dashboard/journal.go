// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
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

func (s *Server) journal(w http.ResponseWriter, r *http.Request, viewer *access.Viewer) {
	if s.options.Journal == nil {
		answer(w, rows.Journal{Decisions: []rows.Decision{}, Missing: "This page was not told where the scheduler's journal is."})
		return
	}
	list, err := s.options.Journal.Decisions(r.Context(), viewer)
	if err != nil {
		answer(w, rows.Journal{Decisions: []rows.Decision{}, Missing: err.Error()})
		return
	}
	answer(w, list)
}

func (s *Server) journalStep(w http.ResponseWriter, r *http.Request, viewer *access.Viewer) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || s.options.Journal == nil {
		fail(w, http.StatusNotFound, "There is no such decision.")
		return
	}
	step, err := s.options.Journal.Step(r.Context(), viewer, id)
	switch {
	case err != nil:
		fail(w, http.StatusBadGateway, err.Error())
	case step == nil:
		fail(w, http.StatusNotFound, fmt.Sprintf("Decision %d is no longer in the journal.", id))
	default:
		answer(w, step)
	}
}
