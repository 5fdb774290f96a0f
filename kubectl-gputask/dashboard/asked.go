// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/kubectl-gputask/whatif"
)

// gpu answers with all about a GPU.
func (s *Server) gpu(w http.ResponseWriter, r *http.Request, _ *access.Viewer) {
	index, err := strconv.Atoi(r.PathValue("index"))
	if err != nil {
		fail(w, http.StatusBadRequest, "The number of a GPU must be a number.")
		return
	}
	var row *rows.GPUDetails
	if err := s.feed.ask(func(view *analysis.View) { row = rows.GPURow(view, r.PathValue("node"), index) }); err != nil {
		fail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	if row == nil {
		fail(w, http.StatusNotFound, fmt.Sprintf("There is no GPU %d on a node %s.", index, printable(r.PathValue("node"))))
		return
	}
	answer(w, row)
}

// maxAsked limits about how many tasks one may ask at once: each takes the engine some time.
const maxAsked = 20

// whatIf answers whether and when tasks would fit. The API server checks them with the viewer's rights.
func (s *Server) whatIf(w http.ResponseWriter, r *http.Request, viewer *access.Viewer) {
	text, ok := body(w, r, maxManifests)
	if !ok {
		return
	}
	tasks, err := whatif.Parse(bytes.NewReader(text), "the text")
	switch {
	case err != nil:
		fail(w, http.StatusUnprocessableEntity, err.Error())
		return
	case len(tasks) > maxAsked:
		fail(w, http.StatusUnprocessableEntity, fmt.Sprintf("These are %d tasks: ask about %d at most at a time.", len(tasks), maxAsked))
		return
	}
	for i, task := range tasks {
		if task.Namespace == "" {
			task.Namespace = viewer.Clients.Namespace
		}
		if tasks[i], err = whatif.Check(r.Context(), viewer.Clients, task); err != nil {
			failedRequest(w, fmt.Errorf("task %s: %w", task.Name, err))
			return
		}
	}
	follower := s.feed.following()
	if follower == nil {
		fail(w, http.StatusServiceUnavailable, "The cluster has not been seen yet: "+orUnknown(s.feed.health)+".")
		return
	}
	s.feed.thinking.Lock() // one at a time: each may take all of a CPU
	defer s.feed.thinking.Unlock()
	observed, answers := follower.Observe(s.options.Clock.Now()), rows.WhatIf{Answers: []rows.WhatIfAnswer{}}
	for _, task := range tasks {
		view, one, err := whatif.Ask(observed, task)
		if err != nil {
			fail(w, http.StatusUnprocessableEntity, fmt.Sprintf("task %s: %v", task.Name, err))
			return
		}
		answers.Answers = append(answers.Answers, rows.WhatIfRow(view, one))
	}
	if unknown := observed.Queues.Unknown; unknown != "" {
		answers.Notes = append(answers.Notes, "GPUQueues are not taken into account: "+unknown+".")
	}
	answer(w, answers)
}

// maxHours is how far back the history may be asked for.
const maxHours = 24 * 31

// history answers with how the GPUs were used: from Prometheus, or, without one or while it does not answer, as far as it was seen here.
func (s *Server) history(w http.ResponseWriter, r *http.Request, _ *access.Viewer) {
	hours, err := strconv.Atoi(r.URL.Query().Get("hours"))
	if err != nil || hours < 1 || hours > maxHours {
		fail(w, http.StatusBadRequest, fmt.Sprintf("The parameter hours must be a number from 1 to %d.", maxHours))
		return
	}
	now := s.options.Clock.Now()
	begin := now.Add(-time.Duration(hours) * time.Hour)
	own := rows.History{Source: "page", Samples: s.feed.history.Since(begin)}
	if s.options.Prometheus == nil {
		answer(w, own)
		return
	}
	samples, err := s.options.Prometheus.Samples(r.Context(), begin, now)
	if err != nil {
		own.Trouble = err.Error()
		answer(w, own)
		return
	}
	answer(w, rows.History{Source: "prometheus", Samples: samples})
}
