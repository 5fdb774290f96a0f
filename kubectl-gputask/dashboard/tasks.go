// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/change"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/kubectl-gputask/whatif"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

// failWith answers with an error: one of a request to the API server in its own words, which name the field and the
// missing right.
func failWith(w http.ResponseWriter, err error) {
	var status apierrors.APIStatus
	var known *statusError
	var invalid *whatif.InvalidError
	switch {
	case errors.As(err, &invalid):
		answerWith(w, http.StatusUnprocessableEntity, failure{Error: err.Error(), Fields: invalid.Fields})
	case errors.As(err, &known):
		fail(w, known.status, err.Error())
	case errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest:
		fail(w, int(status.Status().Code), err.Error())
	case isUnreachable(err):
		fail(w, http.StatusBadGateway, "The API server can't be reached: "+err.Error())
	default:
		fail(w, http.StatusUnprocessableEntity, err.Error())
	}
}

// task answers with all about a task. It is read with the viewer's rights; what it depends on is known from the last
// look.
func (s *Server) task(_ http.ResponseWriter, r *http.Request, viewer *access.Viewer) (*rows.TaskDetails, error) {
	ctx, namespace, name := r.Context(), r.PathValue("namespace"), r.PathValue("name")
	task, err := viewer.Clients.Tasks.FalldioV1().GPUTasks(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := cluster.PodsOf(ctx, viewer.Clients, task)
	if err != nil {
		return nil, err
	}
	now := s.options.Clock.Now()
	details := rows.DetailsOf(&clusterview.Task{GPUTask: task, Pods: pods}, s.feed.lives.of(task.UID))
	if details.Events, err = eventsOf(ctx, viewer.Clients, task, pods); err != nil {
		details.Events = []rows.Event{{Time: metav1.NewTime(now), Type: corev1.EventTypeWarning, Object: "this page", Reason: "NoEvents", Message: err.Error(), Count: 1}}
	}
	err = s.feed.ask(func(view *analysis.View) {
		if e, found := view.Explain(namespace, name); found {
			details.Explanation = rows.ExplanationOf(view, e, now)
			details.AddGPUs(e.Uses)
		}
	})
	if err != nil {
		details.Explanation = rows.ExplanationOf(nil, analysis.Alone(task, pods), now)
	}
	return details, nil
}

// maxPodEvents limits for how many of a task's Pods Events are listed: each takes a request.
const maxPodEvents = 8

// eventsOf returns the Events of a task and its first Pods, the oldest first.
func eventsOf(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask, pods []*corev1.Pod) ([]rows.Event, error) {
	uids := []types.UID{task.UID}
	for _, pod := range pods[:min(len(pods), maxPodEvents)] {
		uids = append(uids, pod.UID)
	}
	list := []rows.Event{}
	for _, uid := range uids {
		events, err := cluster.Events(ctx, clients, task.Namespace, uid)
		if err != nil {
			return nil, err
		}
		for i := range events {
			list = append(list, rows.EventOf(&events[i], analysis.TimeOf(&events[i])))
		}
	}
	slices.SortStableFunc(list, func(a, b rows.Event) int { return a.Time.Compare(b.Time.Time) })
	return list, nil
}

const (
	// maxRequest bounds a request to change something, and maxManifests what is asked about.
	maxRequest   = 4 << 10
	maxManifests = 1 << 20
)

// changeRequest is the body of a request to change something.
type changeRequest struct {
	// UID is that of the object that the viewer sees: a later one of the same name stays as it is.
	UID types.UID `json:"uid"`
}

// body reads a request's body of at most some bytes.
func body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) //nolint:forbidigo // deadlines of connections are times of the system
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, failed(http.StatusRequestEntityTooLarge, "The request is too large: at most %d KiB are accepted.", most>>10)
	case err != nil:
		return nil, failed(http.StatusBadRequest, "The request can't be read: %v", err)
	}
	return text, nil
}

func readChange(w http.ResponseWriter, r *http.Request) (request changeRequest, err error) {
	text, err := body(w, r, maxRequest)
	if err != nil {
		return request, err
	}
	if err := json.Unmarshal(text, &request); err != nil || request.UID == "" {
		return request, failed(http.StatusBadRequest, `The request must be JSON with the field "uid".`)
	}
	return request, nil
}

// changeTask suspends, resumes, deletes or reruns a task with the viewer's rights.
func (s *Server) changeTask(w http.ResponseWriter, r *http.Request, viewer *access.Viewer) (done, error) {
	request, err := readChange(w, r)
	if err != nil {
		return done{}, err
	}
	ctx, namespace, name := r.Context(), r.PathValue("namespace"), r.PathValue("name")
	task, err := viewer.Clients.Tasks.FalldioV1().GPUTasks(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return done{}, err
	case task.UID != request.UID:
		return done{}, failed(http.StatusConflict, "There is another task of this name now. Look at it before you change it.")
	}
	message, err := apply(ctx, viewer.Clients, task, r.PathValue("action"))
	return done{message}, err
}

func apply(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask, action string) (message string, err error) {
	switch action {
	case rows.ActionSuspend, rows.ActionResume:
		already, err := change.Suspend(ctx, clients, task, action == rows.ActionSuspend)
		if already {
			return "Nothing to change.", err
		}
		return map[string]string{rows.ActionSuspend: "The task is being suspended.", rows.ActionResume: "The task is resumed."}[action], err
	case rows.ActionDelete:
		return "The task is being deleted.", change.Delete(ctx, clients, task)
	case rows.ActionRerun:
		created, err := change.Rerun(ctx, clients, task, "", func(again *v1.GPUTask) (*v1.GPUTask, error) {
			return clients.Tasks.FalldioV1().GPUTasks(again.Namespace).Create(ctx, again, metav1.CreateOptions{FieldManager: change.FieldManager})
		})
		if err != nil {
			return "", err
		}
		return "The task " + created.Name + " was created.", nil
	default:
		return "", fmt.Errorf("there is no action %q", printable(action))
	}
}

// changePlan approves or aborts a MovePlan with the viewer's rights.
func (s *Server) changePlan(w http.ResponseWriter, r *http.Request, viewer *access.Viewer) (done, error) {
	request, err := readChange(w, r)
	if err != nil {
		return done{}, err
	}
	changes := map[string]struct {
		apply   func(context.Context, *cluster.Clients, *v1.MovePlan) (bool, error)
		message string
	}{
		rows.ActionApprove: {change.Approve, "The plan is approved."}, rows.ActionAbort: {change.Abort, "The plan is being aborted."},
	}
	action, known := changes[r.PathValue("action")]
	if !known {
		return done{}, failed(http.StatusNotFound, "There is no action %q.", printable(r.PathValue("action")))
	}
	plan, err := viewer.Clients.Tasks.FalldioV1().MovePlans().Get(r.Context(), r.PathValue("name"), metav1.GetOptions{})
	switch {
	case err != nil:
		return done{}, err
	case plan.UID != request.UID:
		return done{}, failed(http.StatusConflict, "There is another plan of this name now. Look at it before you change it.")
	}
	_, err = action.apply(r.Context(), viewer.Clients, plan)
	return done{action.message}, err
}
