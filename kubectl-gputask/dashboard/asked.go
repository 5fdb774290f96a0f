// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"net/http"
	"strconv"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/kubectl-gputask/whatif"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// gpu answers with all about a GPU.
func (s *Server) gpu(_ http.ResponseWriter, r *http.Request, _ *access.Viewer) (row *rows.GPUDetails, _ error) {
	index, err := strconv.Atoi(r.PathValue("index"))
	if err != nil {
		return nil, failed(http.StatusBadRequest, "The number of a GPU must be a number.")
	}
	if err := s.feed.ask(func(view *analysis.View) { row = rows.GPURow(view, r.PathValue("node"), index) }); err != nil {
		return nil, failed(http.StatusServiceUnavailable, "%v", err)
	}
	if row == nil {
		return nil, failed(http.StatusNotFound, "There is no GPU %d on a node %s.", index, printable(r.PathValue("node")))
	}
	return row, nil
}

// maxAsked limits about how many tasks one may ask at once: each takes the engine some time.
const maxAsked = 20

// whatIf answers whether and when tasks would fit. The API server checks them with the viewer's rights.
func (s *Server) whatIf(w http.ResponseWriter, r *http.Request, viewer *access.Viewer) (*rows.WhatIf, error) {
	manifests, err := readManifests(w, r, viewer)
	switch {
	case err != nil:
		return nil, err
	case len(manifests.Tasks) > maxAsked:
		return nil, failed(http.StatusUnprocessableEntity, "These are %d tasks: at most %d can be checked at a time.", len(manifests.Tasks), maxAsked)
	}
	var tasks []*v1.GPUTask
	var named []analysis.Named
	for _, manifest := range manifests.Tasks {
		task, err := whatif.Check(r.Context(), viewer.Clients, manifest)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", manifest.Name, err)
		}
		found, err := manifests.Look(r.Context(), viewer.Clients, task)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", manifest.Name, err)
		}
		tasks, named = append(tasks, task), append(named, found)
	}
	follower := s.feed.following()
	if follower == nil {
		return nil, failed(http.StatusServiceUnavailable, "The cluster has not been read yet: %s.", orUnknown(s.feed.health))
	}
	s.feed.thinking.Lock() // one at a time: each may take all of a CPU
	defer s.feed.thinking.Unlock()
	observed, answers := follower.Observe(s.options.Clock.Now()), &rows.WhatIf{Answers: []rows.WhatIfAnswer{}}
	for i, task := range tasks {
		view, found, err := whatif.Ask(observed, task, named[i])
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", task.Name, err)
		}
		answers.Answers = append(answers.Answers, rows.WhatIfRow(view, found))
	}
	for _, skipped := range manifests.Skipped {
		answers.Notes = append(answers.Notes, "Skipped: "+skipped+".")
	}
	if unknown := observed.Queues.Unknown; unknown != "" {
		answers.Notes = append(answers.Notes, "GPUQueues are not considered: "+unknown+".")
	}
	return answers, nil
}

// maxHours is how far back the history may be asked for.
const maxHours = 24 * 31

// history answers with how the GPUs were used: from Prometheus, or, without one or while it does not answer, as far as
// it was seen here.
func (s *Server) history(_ http.ResponseWriter, r *http.Request, _ *access.Viewer) (rows.History, error) {
	begin, now, err := s.period(r)
	if err != nil {
		return rows.History{}, err
	}
	own := rows.History{Source: "page", Samples: s.feed.history.Since(begin)}
	if s.options.Prometheus == nil {
		return own, nil
	}
	samples, err := s.options.Prometheus.Samples(r.Context(), begin, now)
	if err != nil {
		own.Trouble = err.Error()
		return own, nil //nolint:nilerr // the page shows it beside its own samples
	}
	return rows.History{Source: "prometheus", Samples: samples}, nil
}
