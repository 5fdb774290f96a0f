// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/history"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/pkg/accounting"
)

// addBook adds the book of today, in which namespace vision has used 2 GPU-hours of queue research, and nlp one of
// none.
func addBook(t *testing.T, clients *cluster.Clients) {
	t.Helper()
	book := accounting.NewBook(time.Now().Truncate(time.Hour))
	book.AsOf = book.From.Add(time.Second)
	book.Add(accounting.Key{Namespace: "vision", Queue: "research", Model: "h100"}, book.From, accounting.Amounts{Used: 2 * 360_000})
	book.Add(accounting.Key{Namespace: "nlp", Model: "h100"}, book.From, accounting.Amounts{Used: 360_000})
	content, err := book.Encode()
	if err != nil {
		t.Fatal(err)
	}
	stored := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: accounting.StoreNamespace, Name: accounting.StoreName(book.Day)}, BinaryData: map[string][]byte{accounting.StoreKey: content},
	}
	if _, err := clients.Kube.CoreV1().ConfigMaps(stored.Namespace).Create(t.Context(), stored, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func splitBy(t *testing.T, s *Server, dimension string) *rows.SplitHistory {
	t.Helper()
	code, text := ask(t, s, "GET", "/api/history/"+dimension+"?hours=1", "")
	answer := &rows.SplitHistory{}
	if err := json.Unmarshal([]byte(text), answer); err != nil || code != 200 {
		t.Fatalf("status %d, error %v: %s", code, err, text)
	}
	return answer
}

func TestTheHistoryIsSplit(t *testing.T) {
	t.Parallel()
	s, clients := serverWith(t)
	addBook(t, clients)
	now := metav1.NewTime(time.Now())
	s.feed.history.Add(&rows.Moment{
		Sample: rows.Sample{Time: now}, Parts: rows.Parts{ByQueue: []rows.Part{{Name: "research", Allocated: 8, Waiting: 4}}},
		Starts: []rows.Start{{UID: "train", At: now.Time, Waited: time.Minute, Queue: "research", Namespace: "vision"}},
	})
	for dimension, want := range map[string]string{
		"queue":     `[{"name":"research","gpuHours":2,"started":1,"waits":{"medianSeconds":60,"p95Seconds":60},"waiting":4},{"name":"","gpuHours":1,"started":0,"waiting":0}]`,
		"namespace": `[{"name":"vision","gpuHours":2,"started":1,"waits":{"medianSeconds":60,"p95Seconds":60},"waiting":0},{"name":"nlp","gpuHours":1,"started":0,"waiting":0}]`,
		"cluster":   `[{"name":"","gpuHours":3,"started":1,"waits":{"medianSeconds":60,"p95Seconds":60},"waiting":4}]`,
	} {
		answer := splitBy(t, s, dimension)
		text, err := json.Marshal(answer.Rows)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != want || answer.CountedUntil == nil || answer.Uncounted != "" || answer.SeenSince.IsZero() {
			t.Errorf("by %s: %s\nof %+v", dimension, text, answer)
		}
	}
	if curves := splitBy(t, s, "queue").Curves; len(curves.Times) != 1 || len(curves.Series) != 1 || curves.Series[0].Name != "research" || curves.Series[0].GPUs[0] != 8 {
		t.Errorf("the curves are %+v", curves)
	}
	if code, text := ask(t, s, "GET", "/api/history/task?hours=1", ""); code != 404 {
		t.Errorf("status %d: %s", code, text)
	}
	if code, text := ask(t, s, "GET", "/api/history/queue?hours=0", ""); code != 400 || !strings.Contains(text, "from 1 to 744") {
		t.Errorf("status %d: %s", code, text)
	}
}

// Prometheus and the page's own rights know more than such a user may see.
func TestWhoSeesOneNamespaceSeesNoNamesOfOthers(t *testing.T) {
	t.Parallel()
	s, clients := serverWith(t)
	addBook(t, clients)
	s.options.Personal = true
	s.options.Prometheus = &history.Prometheus{URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, HTTP: &http.Client{Transport: notAsked{t}}}
	for _, dimension := range []string{"cluster", "namespace"} {
		if code, text := ask(t, s, "GET", "/api/history/"+dimension+"?hours=1", ""); code != 403 || !strings.Contains(text, "gputasks-cluster-view") {
			t.Errorf("status %d: %s", code, text)
		}
	}
}

type notAsked struct{ t *testing.T }

// RoundTrip implements http.RoundTripper.
func (n notAsked) RoundTrip(request *http.Request) (*http.Response, error) {
	n.t.Errorf("%s was asked for", request.URL)
	return nil, errors.New("nothing is answered")
}

// The books name the namespaces of all tenants.
func TestWhoMayNotReadTheBooksSeesNoNamesOfThem(t *testing.T) {
	t.Parallel()
	s, clients := serverWith(t)
	addBook(t, clients)
	clients.Kube.(*kubefake.Clientset).PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "gpu-usage-01", errors.New("no"))
	})
	answer := splitBy(t, s, "namespace")
	if len(answer.Rows) != 0 || len(answer.Curves.Series) != 0 || !strings.Contains(answer.Uncounted, "Role gpu-usage-view") {
		t.Errorf("the answer is %+v", answer)
	}
}

func TestBooksAreReadOnceAMinute(t *testing.T) {
	t.Parallel()
	s, clients := serverWith(t)
	addBook(t, clients)
	splitBy(t, s, "queue")
	before := len(clients.Kube.(*kubefake.Clientset).Actions())
	splitBy(t, s, "queue")
	if after := len(clients.Kube.(*kubefake.Clientset).Actions()); after != before {
		t.Errorf("%d more requests to the API server", after-before)
	}
}
