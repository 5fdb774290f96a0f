// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// job is a gang of the stress test.
type job struct {
	gang
	// bare is true for a gang of plain Pods, which the test itself replaces when they
	// are lost; otherwise it is a GPUTask.
	bare bool
	// cancelled is true for a gang that its user deletes after a while.
	cancelled bool
}

// model is a GPU model, with its share of the stress test's nodes in percent.
type model struct {
	name        string
	share, gpus int
}

var models = []model{{"h100", 60, 8}, {"a100", 20, 8}, {"l4", 20, 4}}

// count returns how many of the nodes have the model.
func (m *model) count(nodes int) int { return max(2, nodes*m.share/100) }

// nodesPerLeaf is how many nodes a leaf of the stress test has.
const nodesPerLeaf = 8

// randomJobs returns gangs of all kinds for the number of nodes.
func randomJobs(random *rand.Rand, count, nodes int) []job {
	jobs := make([]job, count)
	for i := range jobs {
		jobs[i] = randomJob(random, i, nodes)
	}
	return jobs
}

func randomJob(random *rand.Rand, i, nodes int) job {
	model := models[0]
	if dice := random.IntN(100); dice >= 60 {
		model = models[1+dice/80]
	}
	j := job{bare: random.IntN(10) < 3, cancelled: random.IntN(12) == 0}
	j.name, j.model = fmt.Sprintf("job-%03d", i), model.name
	j.pods = 1 << random.IntN(7)
	j.pods -= random.IntN(max(1, j.pods/2)) // 1 to 64, small ones as often as big ones
	j.priority = []string{low, low, medium, medium, high}[random.IntN(5)]
	j.duration = fmt.Sprintf("%dms", 1000+random.IntN(7000))
	switch dice := random.IntN(10); {
	case dice < 2:
		j.percent = 10 * (1 + random.IntN(9))
	case dice < 9:
		j.gpus = 1 << random.IntN(3)
	default:
		j.gpus = model.gpus
	}
	// At most half of a model's GPUs: nodes will be missing.
	for max(j.gpus, 1)*j.pods > model.count(nodes)*model.gpus/2 {
		j.pods /= 2
	}
	if j.pods > 1 {
		j.min = j.pods
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
		j.level, j.required, j.gpus = "leaf", true, 4
		j.pods, j.min = 64, 64 // more than any leaf will ever have
	}
}

// submit creates jobs one after the other, spread over a period.
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

// workload holds the jobs of a stress test.
type workload struct {
	*suite
	jobs    []job
	cancels sync.WaitGroup
	// pools are the pools with a scheduler of their own, perPool is how many nodes each
	// has; without pools it is the number of all nodes.
	pools   []string
	perPool int

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

// keepAlive is the controller of the plain Pods: it creates missing ones until ctx ends.
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
		w.prod(ctx)
	}
}

// prod updates Pods that should have started or ended a while ago: KWOK drops those whose
// node was away, and processes them again when they change.
func (w *workload) prod(ctx context.Context) {
	const late = 3 * time.Second
	for _, pod := range w.ledger.podsWith(isHolding) {
		due := pod.CreationTimestamp.Add(20 * time.Second)
		if at, err := time.Parse(time.RFC3339Nano, pod.Annotations[finishAnnotation]); err == nil {
			due = at
		}
		if last, err := time.Parse(time.RFC3339Nano, pod.Annotations[proddedAnnotation]); err == nil && last.After(due) {
			due = last
		}
		if time.Since(due) < late {
			continue
		}
		patch := fmt.Sprintf(`{"metadata": {"uid": %q, "annotations": {%q: %q}}}`, pod.UID, proddedAnnotation, time.Now().Format(time.RFC3339Nano))
		_, err := w.kube.CoreV1().Pods(w.namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		// Invalid: the Pod was replaced by another one of this name.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) && ctx.Err() == nil {
			w.Errorf("touching Pod %s: %v", pod.Name, err)
		}
	}
}

// Annotations of localcluster's simulation.
const (
	finishAnnotation  = "simulation.falldio.com/finish-at"
	proddedAnnotation = "simulation.falldio.com/prodded-at"
)

// complete creates the missing Pods of a gang. Those that have succeeded are not created
// again, and the others need not wait for them.
func (w *workload) complete(ctx context.Context, j *job) {
	known := w.ledger.record(j.name).ended
	pods, ended := w.ledger.podsOf(j.name), len(known)
	there := map[string]bool{}
	for _, pod := range pods {
		there[pod.Name] = true
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && ended > 0 && minimum(pod) > max(1, j.min-ended) {
			w.replace(ctx, pod)
		}
	}
	for index := range j.pods {
		pod := w.podOf(j.gang, index)
		if there[pod.Name] || known[pod.Name] { // a Pod that has ended may be gone with its node
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

// replace deletes a Pod that waits for members that have ended, so that it is created
// again.
func (w *workload) replace(ctx context.Context, pod *corev1.Pod) {
	err := w.kube.CoreV1().Pods(w.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		w.Errorf("deleting Pod %s: %v", pod.Name, err)
	}
}

// unfinished returns the jobs that have not ended, and their progress.
func (w *workload) unfinished() []string {
	var left []string
	for i := range w.jobs {
		j := &w.jobs[i]
		if j.infeasible || j.cancelled {
			continue
		}
		pods, ended := w.ledger.podsOf(j.name), len(w.ledger.record(j.name).ended)
		if ended < j.pods {
			waiting := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
			left = append(left, fmt.Sprintf("%s (bare: %v, %d Pods, %d of %d ended, %d have nodes; %s)",
				j.name, j.bare, len(pods), ended, j.pods, countPods(pods, isHolding), describe(waiting[:min(len(waiting), 2)])))
		}
	}
	return left
}
