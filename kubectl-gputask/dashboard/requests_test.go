// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	taskfake "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/fake"
)

// serverWith returns a server for a viewer of a cluster with the task train, its Pod train-0, and a Pod of somebody
// else.
func serverWith(tb testing.TB) (*Server, *cluster.Clients) {
	tb.Helper()
	task := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default", UID: "train"}, Status: v1.GPUTaskStatus{Phase: v1.PhaseRunning}}
	own := podOf("train", 0)
	own.Namespace, own.Labels = "default", map[string]string{v1.LabelTask: "train"}
	own.Spec.Containers = []corev1.Container{{Name: v1.ContainerName}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "database-0", Namespace: "default"}}
	clients := &cluster.Clients{Kube: kubefake.NewClientset(own, other), Tasks: taskfake.NewClientset(), Config: &rest.Config{}, Namespace: "default"}
	if err := clients.Tasks.(*taskfake.Clientset).Tracker().Add(task); err != nil {
		tb.Fatal(err)
	}
	return New(Options{Clients: clients, Gate: access.NewOwner(&access.Viewer{Clients: clients}, testToken), Clock: clock.RealClock{}, Files: fstest.MapFS{}}), clients
}

// ask returns the status and the text of an answer.
func ask(t *testing.T, s *Server, method, path, body string) (int, string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+testToken)
	response := httptest.NewRecorder()
	s.Handler().ServeHTTP(response, request)
	text, _ := io.ReadAll(response.Body)
	return response.Code, string(text)
}

func TestLogs(t *testing.T) {
	t.Parallel()
	s, _ := serverWith(t)
	for name, test := range map[string]struct {
		query string
		want  int
		says  string
	}{
		"of a task's Pod":           {"pod=train-0", 200, "fake logs"},
		"of its last lines":         {"pod=train-0&tail=10&follow=true", 200, "fake logs"},
		"of a Pod of somebody else": {"pod=database-0", 404, "The task train has no Pod database-0."},
		"of a Pod that is gone":     {"pod=train-1", 404, `pods \"train-1\" not found`},
		"too many lines":            {"pod=train-0&tail=1000000", 400, "from 0 to 5000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, text := ask(t, s, "GET", "/api/tasks/default/train/logs?"+test.query, ""); code != test.want || !strings.Contains(text, test.says) {
				t.Errorf("status %d: %s", code, text)
			}
		})
	}
}

func TestATaskIsShownBeforeTheClusterWasSeen(t *testing.T) {
	t.Parallel()
	s, _ := serverWith(t)
	code, text := ask(t, s, "GET", "/api/tasks/default/train", "")
	var details rows.TaskDetails
	if err := json.Unmarshal([]byte(text), &details); err != nil || code != 200 {
		t.Fatalf("status %d, error %v: %s", code, err, text)
	}
	if len(details.Members) != 1 || details.Members[0].Name != "train-0" || !strings.Contains(details.Manifest, "kind: GPUTask") || details.Explanation == nil {
		t.Errorf("details: %s", text)
	}
	if len(details.Actions) != 2 || details.Actions[0].Command != "kubectl gputask suspend train --namespace default" {
		t.Errorf("actions: %+v", details.Actions)
	}
}

const manifest = "apiVersion: falldio.com/v1\nkind: GPUTask\n"

// creating has the API server create tasks, or refuse those with some names.
func creating(clients *cluster.Clients) *v1.GPUTask {
	created := &v1.GPUTask{}
	clients.Tasks.(*taskfake.Clientset).PrependReactor("create", "gputasks", func(action clienttesting.Action) (bool, runtime.Object, error) {
		task := action.(clienttesting.CreateAction).GetObject().(*v1.GPUTask)
		kind, resource := v1.TaskKind().GroupKind(), v1.Resource("gputasks")
		switch task.Name {
		case "forbidden":
			return true, nil, apierrors.NewForbidden(resource, task.Name, errors.New("ann may not create it"))
		case "train":
			return true, nil, apierrors.NewAlreadyExists(resource, task.Name)
		case "invalid":
			return true, nil, apierrors.NewInvalid(kind, task.Name, field.ErrorList{field.Invalid(field.NewPath("spec", "gpu-amount"), "x", "must be a number")})
		}
		task.DeepCopyInto(created)
		return true, task, nil
	})
	return created
}

func TestATaskIsCreated(t *testing.T) {
	t.Parallel()
	s, clients := serverWith(t)
	created := creating(clients)
	code, answer := ask(t, s, "POST", "/api/tasks", manifest+"metadata: {name: new, uid: of-another, resourceVersion: \"7\"}\nspec: {gpu-amount: 2}\n")
	if want := `{"message":"The task new was created.","namespace":"default","name":"new"}`; code != 200 || answer != want {
		t.Errorf("status %d: %s, want %s", code, answer, want)
	}
	if created.Namespace != "default" || created.Spec.GPUAmount != "2" || created.UID != "" || created.ResourceVersion != "" {
		t.Errorf("the task is %+v", created)
	}
}

func TestWhyATaskIsNotCreated(t *testing.T) {
	t.Parallel()
	s, clients := serverWith(t)
	created := creating(clients)
	for name, test := range map[string]struct {
		text string
		code int
		says string
	}{
		"without the right":      {manifest + "metadata: {name: forbidden}\n", 403, "ann may not create it"},
		"there is one":           {manifest + "metadata: {name: train}\n", 409, "already exists"},
		"a field is invalid":     {manifest + "metadata: {name: invalid}\nspec:\n  gpu-amount: x\n", 422, `"fields":[{"path":"spec.gpu-amount","line":5,"text":"Invalid value: \"x\": must be a number"}]`},
		"there is no such field": {manifest + "metadata: {name: a}\nspec:\n  gpus: 1\n", 422, `"fields":[{"path":"spec.gpus","line":5,`},
		"two tasks":              {manifest + "metadata: {name: a}\n---\n" + manifest + "metadata: {name: b}\n", 422, "kubectl create -f takes all of it"},
		"another object with it": {manifest + "metadata: {name: a}\n---\nkind: Service\napiVersion: v1\n", 422, "kubectl create -f takes all of it"},
		"no task":                {"", 422, "there are no GPUTasks in it"},
	} {
		code, answer := ask(t, s, "POST", "/api/tasks", test.text)
		if code != test.code || !strings.Contains(answer, test.says) {
			t.Errorf("%s: status %d: %s", name, code, answer)
		}
	}
	if created.Name != "" {
		t.Errorf("task %s was created", created.Name)
	}
}

func TestChangesAreForTheTaskThatWasSeen(t *testing.T) {
	t.Parallel()
	s, clients := serverWith(t)
	if code, text := ask(t, s, "POST", "/api/tasks/default/train/delete", `{"uid":"of-an-earlier-one"}`); code != 409 || !strings.Contains(text, "another task of this name") {
		t.Errorf("status %d: %s", code, text)
	}
	if code, text := ask(t, s, "POST", "/api/tasks/default/train/explode", `{"uid":"train"}`); code != 422 || !strings.Contains(text, `there is no action`) {
		t.Errorf("status %d: %s", code, text)
	}
	if code, text := ask(t, s, "POST", "/api/tasks/default/train/rerun", `{"uid":"train"}`); code != 422 || !strings.Contains(text, "has not finished") {
		t.Errorf("status %d: %s", code, text)
	}
	if code, text := ask(t, s, "POST", "/api/tasks/default/train/delete", `{"uid":"train"}`); code != 200 {
		t.Errorf("status %d: %s", code, text)
	}
	if _, err := clients.Tasks.FalldioV1().GPUTasks("default").Get(t.Context(), "train", metav1.GetOptions{}); err == nil {
		t.Error("the task is still there")
	}
	if code, text := ask(t, s, "POST", "/api/tasks/default/train/delete", `{"uid":"train"}`); code != 404 || !strings.Contains(text, "not found") {
		t.Errorf("status %d: %s", code, text)
	}
}

// filterOf is a journal that remembers what it was asked for.
type filterOf struct{ asked *rows.DecisionFilter }

func (f *filterOf) Decisions(_ context.Context, _ *access.Viewer, filter *rows.DecisionFilter) (*rows.Journal, error) {
	f.asked = filter
	return &rows.Journal{}, nil
}

func (f *filterOf) Step(context.Context, *access.Viewer, int) (*rows.JournalStep, error) {
	return nil, nil
}

func TestDecisionsAreAskedForWithAFilter(t *testing.T) {
	t.Parallel()
	s, clients := serverWith(t)
	array := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: "sweep", Namespace: "default"}, Spec: v1.GPUTaskSpec{Completions: new(int32(4))}}
	if err := clients.Tasks.(*taskfake.Clientset).Tracker().Add(array); err != nil {
		t.Fatal(err)
	}
	source := &filterOf{}
	s.options.Journal = source
	for query, want := range map[string]rows.DecisionFilter{
		"":                                     {},
		"?task=default/train&outcome=Waits":    {Task: "default/train", Outcome: "Waits"},
		"?task=default/sweep&find=%20Big%20eu": {Task: "default/sweep", IsArray: true, Words: []string{"big", "eu"}},
		"?task=default/gone":                   {Task: "default/gone"},
	} {
		if code, text := ask(t, s, "GET", "/api/journal"+query, ""); code != 200 {
			t.Errorf("status %d: %s", code, text)
		}
		if diff := cmp.Diff(&want, source.asked, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q asks for (-want +got):\n%s", query, diff)
		}
	}
}
