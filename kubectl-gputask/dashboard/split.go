// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/history"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/pkg/accounting"
)

// wholeCluster is asked for instead of a dimension of accounting.
const wholeCluster = "cluster"

// splitHistory answers with how the GPUs were used in one dimension: the curves as those of the whole cluster, and the
// GPU-hours from the books, with the viewer's rights.
func (s *Server) splitHistory(_ http.ResponseWriter, r *http.Request, viewer *access.Viewer) (*rows.SplitHistory, error) {
	begin, now, err := s.period(r)
	if err != nil {
		return nil, err
	}
	dimension := r.PathValue("dimension")
	if !slices.Contains([]string{wholeCluster, accounting.ByQueue, accounting.ByModel, accounting.ByNamespace}, dimension) {
		return nil, failed(http.StatusNotFound, "The history is not kept by %s.", printable(dimension))
	}
	if s.options.Personal && s.feed.following() == nil {
		return nil, failed(http.StatusForbidden, "Usage is shown once the whole cluster is seen: that takes the rights of the ClusterRole gputasks-cluster-view.")
	}
	answer := &rows.SplitHistory{Source: "page"}
	if dimension != wholeCluster {
		s.addCurves(r.Context(), answer, dimension, begin, now)
	}
	s.addTable(r.Context(), answer, viewer, dimension, begin, now)
	return answer, nil
}

// addCurves adds the curves: from Prometheus, or, without one or while it does not answer, as far as it was seen here.
func (s *Server) addCurves(ctx context.Context, answer *rows.SplitHistory, dimension string, begin, now time.Time) {
	if s.options.Prometheus != nil {
		splits, missing, err := s.options.Prometheus.Splits(ctx, dimension, begin, now)
		if err == nil {
			answer.Source, answer.Missing, answer.Curves = "prometheus", missing, history.CurvesOf(splits)
			return
		}
		answer.Trouble = err.Error()
	}
	answer.Curves = history.CurvesOf(s.feed.history.Splits(dimension, begin))
}

func (s *Server) addTable(ctx context.Context, answer *rows.SplitHistory, viewer *access.Viewer, dimension string, begin, now time.Time) {
	report, err := s.reports.of(ctx, viewer, dimension, begin, now)
	switch {
	case err != nil:
		answer.Uncounted = err.Error()
	case report.CountedUntil.IsZero():
		answer.Uncounted = "nothing was counted in this time; gpu-controller counts unless its flag --usage-period is 0"
		report = nil
	default:
		answer.CountedSince, answer.CountedUntil = &metav1.Time{Time: report.CountedSince}, &metav1.Time{Time: report.CountedUntil}
	}
	starts, since := s.feed.history.Starts(begin)
	answer.SeenSince = metav1.NewTime(since.UTC())
	answer.Rows = history.Table(dimension, report, starts, s.feed.history.Now(dimension))
}

// period returns of which time a request asks for the history.
func (s *Server) period(r *http.Request) (begin, now time.Time, _ error) {
	hours, err := strconv.Atoi(r.URL.Query().Get("hours"))
	if err != nil || hours < 1 || hours > maxHours {
		return begin, now, failed(http.StatusBadRequest, "The parameter hours must be a number from 1 to %d.", maxHours)
	}
	now = s.options.Clock.Now()
	return now.Add(-time.Duration(hours) * time.Hour), now, nil
}
