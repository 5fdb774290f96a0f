// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/command"
	"falldio.github.io/gpu-controller/kubectl-gputask/goldentest"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	taskfake "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/fake"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// ago returns a time before the test's.
func ago(length time.Duration) metav1.Time { return metav1.NewTime(testTime.Add(-length)) }

// fixture runs the commands with fake clients.
type fixture struct {
	t       *testing.T
	kube    *kubefake.Clientset
	tasks   *taskfake.Clientset
	env     *command.Environment
	out     bytes.Buffer
	errOut  bytes.Buffer
	created int
}

// frozen is a clock that stands still, but whose timers expire, and soon.
type frozen struct{ clock.RealClock }

func (f frozen) NewTimer(d time.Duration) clock.Timer { return f.RealClock.NewTimer(d / 1000) }

func (frozen) Now() time.Time                  { return testTime }
func (frozen) Since(t time.Time) time.Duration { return testTime.Sub(t) }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, kube: kubefake.NewClientset(), tasks: taskfake.NewClientset()}
	f.env = &command.Environment{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &f.out, ErrOut: &f.errOut},
		Version:   "v0",
		Clock:     frozen{},
		Poll:      time.Second,
		HTTP:      http.DefaultClient,
		Connect: func(flags *genericclioptions.ConfigFlags) (*cluster.Clients, error) {
			namespace := "default"
			if flags.Namespace != nil && *flags.Namespace != "" {
				namespace = *flags.Namespace
			}
			return &cluster.Clients{Kube: f.kube, Tasks: f.tasks, Config: &rest.Config{Host: "https://127.0.0.1:6443"}, Namespace: namespace}, nil
		},
	}
	f.tasks.PrependReactor("create", "gputasks", f.create)
	f.add(
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 100},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low"}, Value: 1},
	)
	return f
}

// create does what the API server, unlike the fake client, does with a new task:
// defaults, generated names, dry runs.
func (f *fixture) create(action clienttesting.Action) (handled bool, result runtime.Object, err error) {
	creation := action.(clienttesting.CreateActionImpl)
	task := creation.GetObject().(*v1.GPUTask)
	if task.Name == "" {
		task.Name = task.GenerateName + "abcde"
	}
	task.TypeMeta = metav1.TypeMeta{} // as clients do with the server's response
	f.created++
	task.UID, task.CreationTimestamp = types.UID(fmt.Sprintf("created-%d", f.created)), ago(0)
	if task.Spec.GPUAmount == "" {
		task.Spec.GPUAmount = "1"
	}
	if task.Spec.Replicas == nil {
		task.Spec.Replicas = new(int32(1))
	}
	if len(creation.GetCreateOptions().DryRun) > 0 {
		return true, task, nil
	}
	return true, task, f.tasks.Tracker().Add(task)
}

// add stores objects in the fake API server.
func (f *fixture) add(objects ...runtime.Object) {
	f.t.Helper()
	for _, object := range objects {
		var err error
		switch object := object.(type) {
		case *v1.GPUTask, *v1.MovePlan, *v1.GPUQueue:
			err = f.tasks.Tracker().Add(object)
		default:
			err = f.kube.Tracker().Add(object)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// run runs the program with arguments and returns its error.
func (f *fixture) run(args ...string) error {
	f.t.Helper()
	return f.runWith(f.t.Context(), args...)
}

func (f *fixture) runWith(ctx context.Context, args ...string) error {
	f.t.Helper()
	f.out.Reset()
	f.errOut.Reset()
	program := command.New(f.env) //nolint:contextcheck // commands get theirs when they are executed
	program.SetArgs(args)
	return program.ExecuteContext(ctx)
}

// golden runs the program, which must succeed, and compares its output.
func (f *fixture) golden(name string, args ...string) {
	f.t.Helper()
	if err := f.run(args...); err != nil {
		f.t.Fatalf("%v: %v", args, err)
	}
	goldentest.Compare(f.t, name, f.transcript(args...))
}

// transcript returns the command line and its output, as on a terminal.
func (f *fixture) transcript(args ...string) string {
	return "$ kubectl gputask " + strings.Join(args, " ") + "\n" + f.out.String() + f.errOut.String()
}

func uuidOf(node string, index int) string { return fmt.Sprintf("GPU-%s-%d", node, index) }

type nodeOption func(*corev1.Node, *inventory.Inventory)

// newNode returns a ready node with GPUs.
func newNode(name, leaf, model, pool string, gpus int, options ...nodeOption) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{
		v1.LabelGPUModel: model, v1.LabelNodePool: pool, v1.LabelLeaf: leaf, v1.LabelGPUMemory: "81559",
	}, Annotations: map[string]string{}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("110"),
		v1.ResourceGPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI), v1.ResourceGPUPercent: *resource.NewQuantity(int64(100*gpus), resource.DecimalSI),
	}
	listed := &inventory.Inventory{Version: inventory.Version}
	for i := range gpus {
		listed.GPUs = append(listed.GPUs, inventory.GPU{Index: i, UUID: uuidOf(name, i), Model: model, MemoryMiB: 81559, Health: inventory.Healthy})
	}
	for _, change := range options {
		change(node, listed)
	}
	text, err := listed.String()
	if err != nil {
		panic(err) // the test is wrong
	}
	node.Annotations[inventory.Annotation] = text
	return node
}

func cordoned(node *corev1.Node, _ *inventory.Inventory) { node.Spec.Unschedulable = true }

func broken(gpu int) nodeOption {
	return func(_ *corev1.Node, listed *inventory.Inventory) { listed.GPUs[gpu].Health = inventory.Unhealthy }
}

func reserves(list ...reservation.Reservation) nodeOption {
	return func(node *corev1.Node, _ *inventory.Inventory) {
		text, err := reservation.Format(list)
		if err != nil {
			panic(err) // the test is wrong
		}
		node.Annotations[reservation.Annotation] = text
	}
}

// newTask returns a task that requests GPUs, created an hour ago.
func newTask(name, gpu, amount string, change ...func(*v1.GPUTask)) *v1.GPUTask {
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), CreationTimestamp: ago(time.Hour)},
		Spec: v1.GPUTaskSpec{
			GPU: gpu, GPUAmount: amount, Replicas: new(int32(1)), BackoffLimit: new(int32(6)), FailurePolicy: v1.RestartTask,
		},
		Status: v1.GPUTaskStatus{Phase: v1.PhasePending, Message: "waiting for a node"},
	}
	for _, apply := range change {
		apply(task)
	}
	return task
}

func replicas(count int32) func(*v1.GPUTask) {
	return func(task *v1.GPUTask) { task.Spec.Replicas = &count }
}

// podOf returns a Pod of a task that waits for a node.
func podOf(task *v1.GPUTask, index int, priority int32) *corev1.Pod {
	pod, err := gputask.NewPod(task, index, 0, gputask.PodDefaults{Image: "any"})
	if err != nil {
		panic(err) // the test is wrong
	}
	pod.Namespace, pod.UID, pod.CreationTimestamp = task.Namespace, types.UID("uid-pod-"+pod.Name), task.CreationTimestamp
	pod.Spec.Priority = &priority
	pod.Status.Phase = corev1.PodPending
	return pod
}

// waits adds a task all of whose Pods are pending.
func (f *fixture) waits(task *v1.GPUTask, priority int32) {
	f.t.Helper()
	f.add(task)
	for index := range gputask.Replicas(task) {
		f.add(podOf(task, index, priority))
	}
}

// runs adds a task of one Pod that has been running on some cards of a node.
func (f *fixture) runs(task *v1.GPUTask, node string, cards ...int) {
	f.t.Helper()
	task.Status = v1.GPUTaskStatus{
		Moves: task.Status.Moves, LastMove: task.Status.LastMove, LastInterruption: task.Status.LastInterruption, QueueRuntime: task.Status.QueueRuntime,
		Phase: v1.PhaseRunning, Running: 1, Nodes: []string{node}, Message: "running on " + node, StartTime: &task.CreationTimestamp,
		Conditions: []metav1.Condition{{Type: v1.ConditionRunning, Status: metav1.ConditionTrue, Reason: "AllPodsRunning", LastTransitionTime: task.CreationTimestamp}},
	}
	pod := podOf(task, 0, 0)
	pod.Spec.NodeName = node
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &task.CreationTimestamp
	kind := string(v1.ResourceGPU)
	if strings.HasPrefix(task.Spec.GPUAmount, "0.") {
		kind = string(v1.ResourceGPUPercent)
	}
	given := inventory.Assignment{}
	for _, card := range cards {
		given.Add(v1.ContainerName, kind, uuidOf(node, card))
	}
	text, err := given.String()
	if err != nil {
		f.t.Fatal(err)
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[inventory.AssignmentAnnotation] = text
	f.add(task, pod)
}

// fragmented returns a cluster of four nodes with 8 GPUs, two of which are used on each,
// and a node of another model.
func fragmented(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	for i := range 4 {
		f.add(newNode(fmt.Sprintf("h100-%d", i), fmt.Sprintf("leaf-%d", i/2), "h100", "training", 8))
		small := newTask(fmt.Sprintf("small-%d", i), "h100", "2")
		f.runs(small, fmt.Sprintf("h100-%d", i), 0, 1)
	}
	f.add(newNode("a100-0", "", "a100", "", 4))
	return f
}
