// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Cluster is where the Pods of a View come from. Its functions return nil for what is not known.
type Cluster struct {
	Tree      *queueing.Tree
	Namespace func(name string) *corev1.Namespace
	Node      func(name string) *corev1.Node
	// Factors are the fair-share factors of the queues, as far as they are known.
	Factors map[string]float64
}

// View is which queues hold GPUs and wait for some.
type View struct {
	tree *queueing.Tree
	// Held is what they hold, Waiting what waiting Pods ask for.
	Held, Waiting *queueing.Ledger
	// Holdings are the Pods that hold GPUs, or have held some.
	Holdings []Holding
	// running and waiting are the tasks by queue.
	running, waiting map[string]map[string]bool
	// neverFits are limits that are less than a single waiting Pod asks for, by the queue that has the limit.
	neverFits map[string]*queueing.Excess
	// queues are those of Pods, by what decides about them.
	queues map[named]string
}

// named is the namespace of Pods and the queue that they name.
type named struct{ namespace, queue string }

// Holding is GPUs that a Pod of a queue holds.
type Holding struct {
	Queue  string
	Amount queueing.Amount
	// From is when the Pod got them, and Until when it ended; zero if it has not ended yet.
	From, Until time.Time
}

// NewView returns an empty View.
func NewView(tree *queueing.Tree) *View {
	return &View{
		tree: tree, Held: queueing.NewLedger(tree), Waiting: queueing.NewLedger(tree),
		running: map[string]map[string]bool{}, waiting: map[string]map[string]bool{},
		neverFits: map[string]*queueing.Excess{}, queues: map[named]string{},
	}
}

// Add adds a Pod. Those without GPUs do not count.
func (v *View) Add(cluster *Cluster, pod *corev1.Pod) {
	amount := Amount(pod)
	if amount == 0 {
		return
	}
	queue := v.QueueOf(cluster, pod)
	switch {
	case pod.Spec.NodeName != "":
		v.addBound(cluster, pod, queue, amount)
	case podfacts.Ended(pod), pod.DeletionTimestamp != nil, len(pod.Spec.SchedulingGates) > 0:
	default:
		model := WantedModel(pod)
		v.Waiting.Add(queue, model, amount)
		mark(v.waiting, queue, taskOf(pod))
		if excess := v.Held.Fits(queue, queueing.Amounts{model: amount}); excess != nil && excess.Permanent() {
			if known := v.neverFits[excess.Queue]; known == nil || known.Wanted < excess.Wanted || known.Wanted == excess.Wanted && excess.Model < known.Model {
				v.neverFits[excess.Queue] = excess
			}
		}
	}
}

// QueueOf returns the queue that a Pod counts for, whether it holds GPUs or waits for some: one that accepts its
// namespace.
func (v *View) QueueOf(cluster *Cluster, pod *corev1.Pod) string {
	of := named{pod.Namespace, pod.Labels[v1.LabelQueue]}
	queue, known := v.queues[of]
	if !known {
		applicant := Applicant(pod, cluster.Namespace(pod.Namespace))
		queue = v.tree.Holder(&applicant)
		v.queues[of] = queue
	}
	return queue
}

func (v *View) addBound(cluster *Cluster, pod *corev1.Pod, queue string, amount queueing.Amount) {
	from, bound := podfacts.BoundAt(pod)
	if !bound {
		return
	}
	if podfacts.Ended(pod) {
		if until, known := podfacts.EndedAt(pod); known {
			v.Holdings = append(v.Holdings, Holding{queue, amount, from, until})
		}
		return
	}
	v.Holdings = append(v.Holdings, Holding{queue, amount, from, time.Time{}})
	model := ""
	if node := cluster.Node(pod.Spec.NodeName); node != nil {
		model = snapshot.Model(node)
	}
	v.Held.Add(queue, model, amount)
	mark(v.running, queue, taskOf(pod))
}

// taskOf returns what the Pods of one task have in common: their task or gang. Any other Pod is a
// task for itself.
func taskOf(pod *corev1.Pod) string {
	if task := pod.Labels[v1.LabelTask]; task != "" {
		return pod.Namespace + "/" + task
	}
	if gang, err := snapshot.Gang(pod); err == nil && gang != nil {
		return gang.Name
	}
	if ref, found := snapshot.PodGroupOf(pod); found {
		return ref.Gang()
	}
	return pod.Namespace + "/pod/" + pod.Name
}

func mark(tasks map[string]map[string]bool, queue, task string) {
	if tasks[queue] == nil {
		tasks[queue] = map[string]bool{}
	}
	tasks[queue][task] = true
}

// counts returns how many tasks of each queue and its descendants hold GPUs, and how many others
// wait for some.
func (v *View) counts() (running, waiting map[string]int32) {
	running, waiting = map[string]int32{}, map[string]int32{}
	for queue, tasks := range v.running {
		v.count(running, queue, len(tasks))
	}
	for queue, tasks := range v.waiting {
		others := 0
		for task := range tasks {
			if !v.running[queue][task] {
				others++
			}
		}
		v.count(waiting, queue, others)
	}
	return running, waiting
}

func (v *View) count(counts map[string]int32, queue string, tasks int) {
	for _, name := range v.tree.Path(queue) {
		counts[name] += int32(min(tasks, 1<<30)) //nolint:gosec // bounded
	}
}

// Waits returns the queues that have waiting Pods of their own.
func (v *View) Waits(queue string) bool { return len(v.waiting[queue]) > 0 }
