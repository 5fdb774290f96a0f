// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// Journal has the scheduler's last decisions.
type Journal interface {
	// Decisions returns those that a filter selects, as far as the viewer may see them.
	Decisions(ctx context.Context, viewer *access.Viewer, filter *rows.DecisionFilter) (*rows.Journal, error)
	// Step returns one of them, with the cluster right before it; nil if there is none.
	Step(ctx context.Context, viewer *access.Viewer, id int) (*rows.JournalStep, error)
}

func (s *Server) journal(_ http.ResponseWriter, r *http.Request, viewer *access.Viewer) (*rows.Journal, error) {
	if s.options.Journal == nil {
		return &rows.Journal{Decisions: []rows.Decision{}, Outcomes: []string{}, Missing: "The address of the scheduler's journal is not set (--journal)."}, nil
	}
	list, err := s.options.Journal.Decisions(r.Context(), viewer, decisionFilter(r, viewer))
	if err != nil {
		return &rows.Journal{Decisions: []rows.Decision{}, Outcomes: []string{}, Missing: err.Error()}, nil //nolint:nilerr // the page shows it
	}
	return list, nil
}

// decisionFilter returns which decisions a request asks for.
func decisionFilter(r *http.Request, viewer *access.Viewer) *rows.DecisionFilter {
	query := r.URL.Query()
	filter := &rows.DecisionFilter{Task: query.Get("task"), Outcome: query.Get("outcome"), Words: strings.Fields(strings.ToLower(query.Get("find")))}
	if namespace, name, found := strings.Cut(filter.Task, "/"); found {
		task, err := viewer.Clients.Tasks.FalldioV1().GPUTasks(namespace).Get(r.Context(), name, metav1.GetOptions{})
		filter.IsArray = err == nil && gputask.IsArray(task) // of a task that is gone, the Pods are not told from other tasks
	}
	return filter
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
