// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// clockName is the ConfigMap that keepTime writes, markerName the Pod with which the history ends.
const (
	clockName  = "clock"
	markerName = "marker"
)

// life is what etcd's history says about a Pod.
type life struct {
	// last is the last version of the Pod.
	last *corev1.Pod
	// deletedAfter and deletedBefore bound when it was deleted; zero if it was not.
	deletedAfter, deletedBefore time.Time
}

// history returns the GPU-seconds of each Pod that ever existed, from all revisions of etcd, and how exactly they are
// known: a Pod that was deleted before it ended has no time of its end, only revisions before and after it do.
func (s *suite) history() (map[*corev1.Pod]gpuSeconds, map[*corev1.Pod]float64) {
	s.Helper()
	seconds, tolerances := map[*corev1.Pod]gpuSeconds{}, map[*corev1.Pod]float64{}
	for _, life := range s.lives() {
		quantity := life.last.Spec.Containers[0].Resources.Requests[v1.ResourceGPU]
		gpus := float64(quantity.Value())
		if gpus == 0 {
			continue
		}
		seconds[life.last] = life.seconds(gpus)
		if _, known := life.end(); !known {
			// The controller learns of it within moments; after a kill it goes by the request to delete.
			tolerances[life.last] = gpus * (life.deletedBefore.Sub(life.deletedAfter).Seconds() + 2)
		}
	}
	return seconds, tolerances
}

// end returns when the Pod's container ended, or about when it was deleted.
func (l *life) end() (at time.Time, known bool) {
	for i := range l.last.Status.ContainerStatuses {
		if ended := l.last.Status.ContainerStatuses[i].State.Terminated; ended != nil {
			return ended.FinishedAt.Time, true
		}
	}
	return l.deletedBefore, false
}

func (l *life) seconds(gpus float64) gpuSeconds {
	end, known := l.end()
	bound := time.Time{}
	for _, condition := range l.last.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			bound = condition.LastTransitionTime.Time
		}
	}
	if bound.IsZero() {
		return gpuSeconds{waiting: gpus * end.Sub(l.last.CreationTimestamp.Time).Seconds()}
	}
	sum := gpuSeconds{used: gpus * end.Sub(bound).Seconds(), waiting: gpus * bound.Sub(l.last.CreationTimestamp.Time).Seconds()}
	// The Pods of the task called loses are deleted while it goes on, but for the last one.
	if l.last.Status.Phase == corev1.PodFailed || !known && l.last.Labels[v1.LabelTask] == "loses" && l.last.Annotations[lastOne] == "" {
		sum.lost = gpus * end.Sub(l.last.Status.StartTime.Time).Seconds()
	}
	return sum
}

// lastOne marks the Pod that is deleted with its task.
const lastOne = "example.com/last"

// lives reads all revisions of all Pods.
func (s *suite) lives() map[types.UID]*life {
	s.Helper()
	s.createPod(markerName, "")
	client := s.etcd()
	lives := map[types.UID]*life{}
	var open []*life // deleted since the last time that is known
	now := time.Time{}
	watch := client.Watch(s.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithPrevKV())
	for {
		select {
		case <-time.After(limit):
			s.Fatal("the history does not come to its end")
		case response, ok := <-watch:
			if err := response.Err(); err != nil || !ok {
				s.Fatalf("the history of etcd: %v", err)
			}
			for _, event := range response.Events {
				key := string(event.Kv.Key)
				switch {
				case key == "/registry/pods/"+s.namespace+"/"+markerName:
					return lives
				case key == "/registry/configmaps/"+s.namespace+"/"+clockName && event.Type == clientv3.EventTypePut:
					now = s.timeIn(event.Kv.Value, now)
					for _, one := range open {
						one.deletedBefore = now
					}
					open = nil
				case strings.HasPrefix(key, "/registry/pods/") && event.Type == clientv3.EventTypePut:
					pod := s.decodePod(event.Kv.Value)
					if lives[pod.UID] == nil {
						lives[pod.UID] = &life{}
					}
					lives[pod.UID].last = pod
				case strings.HasPrefix(key, "/registry/pods/"):
					one := lives[s.decodePod(event.PrevKv.Value).UID]
					one.deletedAfter, one.deletedBefore = now, now
					open = append(open, one)
				}
			}
		}
	}
}

// etcd returns a client of the cluster's etcd.
func (s *suite) etcd() *clientv3.Client {
	s.Helper()
	client, err := s.cluster.Etcd(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = client.Close() })
	return client
}

func (s *suite) decodePod(value []byte) *corev1.Pod {
	s.Helper()
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		s.Fatal(err)
	}
	return object.(*corev1.Pod)
}

// timeIn returns the time in a version of the clock, or another one if it has none yet.
func (s *suite) timeIn(value []byte, otherwise time.Time) time.Time {
	s.Helper()
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		s.Fatal(err)
	}
	text := object.(*corev1.ConfigMap).Data["time"]
	if text == "" {
		return otherwise
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		s.Fatal(err)
	}
	return at
}
