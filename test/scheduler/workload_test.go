// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// job is a gang of the stress test.
type job struct {
	gang
	// bare is true for a gang of plain Pods, which the test itself replaces when they
	// are lost; else it is a GPUTask.
	bare bool
	// cancelled is true for one that its user deletes after a while.
	cancelled bool
}

// models are the GPU models of the stress test's nodes: one in so many is of it.
var models = []struct {
	name        string
	share, gpus int
}{{"h100", 60, 8}, {"a100", 20, 8}, {"l4", 20, 4}}

// nodesPerLeaf is how many nodes a leaf of the stress test has.
const nodesPerLeaf = 8

// randomJobs returns gangs of all kinds. Each is the i-th one whatever the others are.
func randomJobs(random *rand.Rand, count int) []job {
	jobs := make([]job, count)
	for i := range jobs {
		jobs[i] = randomJob(random, i)
	}
	return jobs
}

func randomJob(random *rand.Rand, i int) job {
	model := models[0]
	if dice := random.IntN(100); dice >= 60 {
		model = models[1+dice/80]
	}
	j := job{bare: random.IntN(10) < 3, cancelled: random.IntN(12) == 0}
	j.name, j.model = fmt.Sprintf("job-%03d", i), model.name
	j.pods = 1 << random.IntN(7)
	j.pods -= random.IntN(max(1, j.pods/2)) // 1 to 64, small ones as often as big ones
	j.priority = []string{low, low, medium, medium, high}[random.IntN(5)]
	j.duration = fmt.Sprintf("%dms", 500+random.IntN(4500))
	switch dice := random.IntN(10); {
	case dice < 2:
		j.percent = 10 * (1 + random.IntN(9))
	case dice < 9:
		j.gpus = 1 << random.IntN(3)
	default:
		j.gpus = model.gpus
	}
	if j.gpus*j.pods > 128 {
		j.gpus = 1 // not all of the cluster at once
	}
	if j.pods > 3 && random.IntN(4) == 0 {
		j.min = j.pods/2 + random.IntN(j.pods/2)
	}
	if random.IntN(3) == 0 {
		j.level = "leaf"
		j.required = max(j.gpus, 1)*j.pods <= (nodesPerLeaf-3)*model.gpus && random.IntN(2) == 0
	}
	if random.IntN(15) == 0 {
		j.makeInfeasible(random)
	}
	return j
}

func (j *job) makeInfeasible(random *rand.Rand) {
	j.infeasible, j.percent = true, 0
	switch random.IntN(3) {
	case 0:
		j.gpus = 9
	case 1:
		j.model = "no-such-model"
	default:
		j.level, j.required, j.gpus, j.min = "leaf", true, 4, 0
		j.pods = 64 // more than any leaf will ever have
	}
}

// submit creates jobs one after the other, over a while.
func (w *workload) submit(ctx context.Context, random *rand.Rand, over time.Duration) error {
	for i := range w.jobs {
		if !pause(ctx, time.Duration(random.Int64N(int64(2*over)/int64(len(w.jobs))))) {
			return ctx.Err()
		}
		if err := w.start(ctx, &w.jobs[i]); err != nil {
			return err
		}
		if w.jobs[i].cancelled {
			after := time.Duration(random.IntN(4000)) * time.Millisecond
			w.cancels.Go(func() {
				if pause(ctx, after) {
					w.cancel(ctx, &w.jobs[i])
				}
			})
		}
	}
	return nil
}

// pause returns false if ctx ends meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// workload is the jobs of a stress test.
type workload struct {
	*suite
	jobs    []job
	cancels sync.WaitGroup

	mu sync.Mutex
	// bare are the gangs of plain Pods that are to be kept alive.
	bare map[string]*job
}

func (w *workload) start(ctx context.Context, j *job) error {
	if !j.bare {
		_, err := w.tasks.FalldioV1().GPUTasks(w.namespace).Create(ctx, w.task(j.gang), metav1.CreateOptions{})
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bare[j.name] = j
	return nil
}

func (w *workload) cancel(ctx context.Context, j *job) {
	var err error
	if j.bare {
		w.mu.Lock()
		delete(w.bare, j.name)
		w.mu.Unlock()
		err = w.kube.CoreV1().Pods(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "gang=" + j.name})
	} else {
		err = w.tasks.FalldioV1().GPUTasks(w.namespace).Delete(ctx, j.name, metav1.DeleteOptions{})
	}
	if err != nil && ctx.Err() == nil {
		w.Errorf("cancelling %s: %v", j.name, err)
	}
}

// keepAlive is the controller of the plain Pods: it creates those that are missing
// until ctx ends.
func (w *workload) keepAlive(ctx context.Context) {
	for pause(ctx, 100*time.Millisecond) {
		w.mu.Lock()
		jobs := make([]*job, 0, len(w.bare))
		for _, j := range w.bare {
			jobs = append(jobs, j)
		}
		w.mu.Unlock()
		for _, j := range jobs {
			w.complete(ctx, j)
		}
	}
}

// complete creates what is missing of a gang. Those that have succeeded do not come
// back, and nobody needs to wait for them.
func (w *workload) complete(ctx context.Context, j *job) {
	there := map[string]bool{}
	ended := 0
	for _, pod := range w.ledger.podsOf(j.name) {
		there[pod.Name] = true
		if pod.Status.Phase == corev1.PodSucceeded {
			ended++
		}
	}
	if len(there) == max(j.pods, 1) {
		return
	}
	for index := range j.pods {
		pod := w.podOf(j.gang, index)
		if there[pod.Name] {
			continue
		}
		if minimum, grouped := pod.Labels[v1.LabelMinAvailable]; grouped && ended > 0 {
			number, _ := strconv.Atoi(minimum) // the test's own
			pod.Labels[v1.LabelMinAvailable] = strconv.Itoa(max(1, number-ended))
		}
		_, err := w.kube.CoreV1().Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
			w.Errorf("creating Pod %s: %v", pod.Name, err)
			return
		}
	}
}

// unfinished returns the jobs that have not come to their end, and how far they are.
func (w *workload) unfinished() []string {
	var left []string
	for i := range w.jobs {
		j := &w.jobs[i]
		if j.infeasible || j.cancelled {
			continue
		}
		pods := w.ledger.podsOf(j.name)
		if ended := countPods(pods, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded }); ended < j.pods {
			left = append(left, fmt.Sprintf("%s (%d of %d ended, %d have nodes)", j.name, ended, j.pods, countPods(pods, isHolding)))
		}
	}
	return left
}
