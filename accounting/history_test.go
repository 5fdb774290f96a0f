// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// versioned gives a Pod a version.
func versioned(number int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.ResourceVersion = strconv.Itoa(number) }
}

func TestDeletedPodsAreReadFromTheHistory(t *testing.T) {
	t.Parallel()
	requested := metav1.NewTime(testTime.Add(time.Minute))
	deleting := func(pod *corev1.Pod) { pod.DeletionTimestamp = &requested }
	one, two := newPod("one", 1, bound(0), versioned(12), deleting), newPod("two", 1, bound(0), versioned(14))
	bookmark := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "20"}}
	expired := &apierrors.NewResourceExpired("too old").ErrStatus
	tests := map[string]struct {
		from, to uint64
		// watches are the events that one watch after another reports.
		watches [][]watch.Event
		// err is of the attempt to watch.
		err  error
		want []string
		// fails is true if the history is to be read again.
		fails bool
	}{
		"in one go":                     {10, 14, [][]watch.Event{{{Type: watch.Deleted, Object: one}, {Type: watch.Modified, Object: newPod("x", 1, versioned(13))}, {Type: watch.Deleted, Object: two}}}, nil, []string{"one", "two"}, false},
		"in several parts":              {10, 14, [][]watch.Event{{{Type: watch.Deleted, Object: one}}, {{Type: watch.Deleted, Object: two}}}, nil, []string{"one", "two"}, false},
		"up to the version asked for":   {10, 12, [][]watch.Event{{{Type: watch.Deleted, Object: one}, {Type: watch.Deleted, Object: two}}}, nil, []string{"one"}, false},
		"up to a bookmark":              {10, 20, [][]watch.Event{{{Type: watch.Deleted, Object: one}, {Type: watch.Bookmark, Object: bookmark}}}, nil, []string{"one"}, false},
		"as long as there is something": {10, 99, [][]watch.Event{{{Type: watch.Deleted, Object: one}}, {}}, nil, []string{"one"}, false},
		"not if there is none":          {14, 14, nil, nil, nil, false},
		"not if it is not known":        {0, 14, nil, nil, nil, false},
		"as far as it is remembered":    {10, 14, [][]watch.Event{{{Type: watch.Deleted, Object: one}, {Type: watch.Error, Object: expired}}}, nil, []string{"one"}, false},
		"not if it is forgotten":        {10, 14, nil, apierrors.NewResourceExpired("too old"), nil, false},
		"again after another error":     {10, 14, nil, errors.New("the API server is busy"), nil, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kube, attempt := kubefake.NewClientset(), 0
			kube.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
				if test.err != nil {
					return true, nil, test.err
				}
				events := test.watches[attempt]
				attempt++
				watcher := watch.NewFakeWithChanSize(len(events), false)
				for _, event := range events {
					watcher.Action(event.Type, event.Object)
				}
				watcher.Stop() // what it holds is read before the end
				return true, watcher, nil
			})
			deleted, err := deletedSince(t.Context(), kube, test.from, test.to, testTime.Add(time.Hour))
			if (err != nil) != test.fails {
				t.Errorf("error %v", err)
			}
			var names []string
			for _, pod := range deleted {
				names = append(names, pod.Name)
			}
			if !slices.Equal(names, test.want) {
				t.Errorf("got %q, want %q", names, test.want)
			}
			if len(deleted) > 0 && !endOf(deleted[0]).Equal(requested.Time) {
				t.Errorf("it ended at %s", endOf(deleted[0]))
			}
		})
	}
}
