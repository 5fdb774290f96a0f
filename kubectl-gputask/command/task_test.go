// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// withTasks returns a fixture with tasks in several phases, and one in another namespace.
func withTasks(t *testing.T) *fixture {
	t.Helper()
	f := fragmented(t)
	f.waits(newTask("big", "h100", "8", replicas(2), func(task *v1.GPUTask) {
		task.Spec.Priority, task.Labels = "high", map[string]string{"team": "vision"}
		task.Status.Message = "both Pods wait for a node: needs at once 2 × 8 GPUs of h100; 4 nodes have too few free GPUs, 1 has another GPU model"
	}), 100)
	f.add(
		newTask("broken", "", "0.5", func(task *v1.GPUTask) {
			task.Status = v1.GPUTaskStatus{Phase: v1.PhaseFailed, Message: "7 failures: the last was exit code 1", Restarts: 6}
		}),
		newTask("elsewhere", "a100", "1", func(task *v1.GPUTask) {
			task.Namespace, task.Spec.NodePool, task.Spec.Queue = "team-a", "research", "vision"
			task.Status = v1.GPUTaskStatus{Phase: v1.PhaseSuspended, Message: "suspended"}
		}),
		newTask("fresh", "h100", "", func(task *v1.GPUTask) { task.Status = v1.GPUTaskStatus{} }),
	)
	return f
}

func TestAMessageOfAClusterIsShownAndNotCarriedOutByTheTerminal(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"list -A", "list -A -o wide", "describe hostile", "explain hostile", "queue -o wide", "list --color=always"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			f := withTasks(t)
			f.add(newTask("hostile", "h100", "1", func(task *v1.GPUTask) {
				task.Status = v1.GPUTaskStatus{Phase: v1.PhasePending, Message: "\x1b]0;owned\a\x1b[8mhidden\rRunning"}
			}))
			if err := f.run(strings.Fields(args)...); err != nil {
				t.Fatal(err)
			}
			out := f.out.String()
			if strings.Contains(out, "\x1b]") || strings.Contains(out, "\x1b[8m") || strings.Contains(out, "\r") {
				t.Errorf("%q", out)
			}
		})
	}
}

// Errors may be anybody's texts, too: those of a webhook, of a proxy, of who answers for an agent.
func TestErrorsOfAClusterAreShownAndNotCarriedOutByTheTerminal(t *testing.T) {
	t.Parallel()
	const hostile = "\x1b]0;owned\x1b\\"
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = connection.Close() }()
		fmt.Fprintf(connection, "HTTP/1.1 404 %s\r\nContent-Length: 0\r\n\r\n", hostile)
	}))
	t.Cleanup(agent.Close)
	for _, args := range []string{"explain small-0", "top --metrics-url=" + agent.URL} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			f := fragmented(t)
			if strings.HasPrefix(args, "explain") {
				f.refuse("nodes", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New(hostile)), nil)
			}
			if err := f.run(strings.Fields(args)...); err != nil {
				t.Fatal(err)
			}
			if all := f.out.String() + f.errOut.String(); !strings.Contains(all, "^[]0;owned^[\\") || strings.Contains(all, hostile) {
				t.Errorf("%q", all)
			}
		})
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"of the namespace", "list", "list"},
		{"of all namespaces with all columns", "list-all-wide", "list -A -o wide"},
		{"of some labels", "list-selector", "list -l team=vision"},
		{"by name", "list-name", "list -o name"},
		{"as YAML", "list-yaml", "list -o yaml -l team=vision"},
		{"in colours", "list-colours", "list --color=always"},
		{"of a namespace without tasks", "list-none", "list -n empty"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			withTasks(t).golden(test.golden, strings.Fields(test.args)...)
		})
	}
}

func TestAListIsForATerminal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, golden, args string
		width              int
	}{
		{"what finished long ago is counted", "list-recent", "list", 0},
		{"and shown on request", "list-all", "list --all", 0},
		{"or by its phase", "list-phase", "list --phase=Succeeded,failed", 0},
		{"or by its name", "list-ended", "list ended", 0},
		{"messages are cut at the width, and columns that say nothing left out", "list-terminal", "list", 80},
		{"but not for a program", "list-program", "list --no-headers", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.env.Width = test.width
			ended := func(ago metav1.Time, phase v1.GPUTaskPhase) func(*v1.GPUTask) {
				return func(task *v1.GPUTask) {
					task.Status = v1.GPUTaskStatus{Phase: phase, CompletionTime: &ago, Message: "exit code 1"}
				}
			}
			f.add(
				newTask("ended", "", "1", ended(ago(2*time.Hour), v1.PhaseSucceeded)), newTask("old", "", "1", ended(ago(61*time.Minute), v1.PhaseFailed)),
				newTask("recent", "", "1", ended(ago(59*time.Minute), v1.PhaseFailed)),
				newTask("a-long-one", "", "1", func(task *v1.GPUTask) {
					task.Status.Message = `PersistentVolumeClaim "dataset" does not exist: all 2 Pods wait for a node`
				}),
				newTask("busy", "", "1", func(task *v1.GPUTask) { task.Status.Phase, task.Status.Message = v1.PhaseRunning, "running on h100-0" }),
			)
			f.golden(test.golden, strings.Fields(test.args)...)
		})
	}
	if got := errorText(newFixture(t).run("list", "--phase=dead")); got != "--phase=dead: must be one of running, pending, waiting, suspended, failed, succeeded" {
		t.Errorf("error %q", got)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	task := newTask("train", "h100", "2", func(task *v1.GPUTask) {
		task.Spec.ActiveDeadlineSeconds, task.Spec.DependsOn = new(int64(7200)), []v1.Dependency{{Name: "prepare"}}
		task.Spec.Rescheduling = &v1.Rescheduling{MinRuntimeSeconds: new(int32(600)), MaxMoves: new(int32(3))}
		task.Labels = map[string]string{"team": "vision", "app": "x"}
	})
	task.Status.Moves, task.Status.LastMove = 1, &v1.LastMove{Time: ago(time.Minute), Plan: "make-room-x"}
	task.Status.QueueRuntime = &v1.QueueRuntime{MaxSeconds: 86_400, Queue: "research"}
	task.Status.LastInterruption = &v1.Interruption{Time: ago(time.Hour), Reason: v1.InterruptionEvicted, Node: "h100-0", EndTime: new(ago(50 * time.Minute))}
	f.runs(task, "h100-1", 4, 5)
	f.add(
		&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default"}, InvolvedObject: corev1.ObjectReference{UID: task.UID}, Type: "Normal", Reason: "Started",
			Message: "all Pods run", LastTimestamp: ago(30 * time.Minute), Source: corev1.EventSource{Component: "gpu-controller"},
		},
		&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, InvolvedObject: corev1.ObjectReference{UID: task.UID}, Type: "Warning", Reason: "Unschedulable",
			Message: "no room", LastTimestamp: ago(50 * time.Minute), ReportingController: "gpu-scheduler",
		},
	)
	f.expects(newTask("soon", "h100", "8", inQueue("vision"), func(task *v1.GPUTask) {
		task.Spec.MaxRuntimeSeconds, task.Status.EstimatedStart = new(int64(5400)), between(3, 130, 140, 160, "small-0")
	}), 0, between(3, 130, 140, 160, "small-0"))
	f.golden("describe", "describe", "train")
	f.golden("describe-queue", "describe", "soon")
	f.golden("describe-pending", "describe", "big")
	f.golden("describe-yaml", "describe", "train", "-o", "yaml")
}

func TestDescribeNamesTheQueueOfATasksPods(t *testing.T) {
	t.Parallel()
	waits := func(name string, change ...func(*v1.GPUTask)) *v1.GPUTask {
		return newTask(name, "h100", "8", append(change, func(task *v1.GPUTask) {
			task.Status.EstimatedStart = between(3, 130, 140, 160, "small-0")
		})...)
	}
	vision := newQueue("vision", "", "vision", 4, 0, status(0, 0, "1.00"))
	for name, test := range map[string]struct {
		task    *v1.GPUTask
		objects []runtime.Object
		want    string
	}{
		"the one that it names":            {waits("big", inQueue("vision")), nil, "vision, position 3"},
		"the only one of its namespace":    {waits("big"), []runtime.Object{vision, newNamespace("default", "vision")}, "vision, position 3"},
		"none that accepts its namespace":  {waits("big"), []runtime.Object{vision, newNamespace("default", "language")}, "none, position 3"},
		"none, as there are none":          {waits("big"), nil, "none, position 3"},
		"the only one, without a position": {newTask("big", "h100", "8"), []runtime.Object{vision, newNamespace("default", "vision")}, "vision\n"},
	} {
		f := fragmented(t)
		f.add(test.objects...)
		f.waits(test.task, 0)
		if err := f.run("describe", "big"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, got, _ := strings.Cut(f.out.String(), "\nQueue:")
		if got = strings.TrimLeft(got, " "); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %.40q, want %q", name, got, test.want)
		}
	}
}

func TestRunWritesTheTaskThatFlagsDescribe(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"without flags everything is defaulted", "run-plain", "run train --dry-run=client -o yaml"},
		{"all flags", "run-all", "run train --gpu h100 --gpu-amount 2 --cpu 8 --memory 16Gi --gpu-memory 40G --priority high --node-pool training --replicas 4 " +
			"--min-available 3 --topology leaf=Required --image example.com/a:v1 --env A=1 --env B=x=y --label team=vision --annotation a/b=c " +
			"--depends-on prepare --depends-on data=Finished --failure-policy RestartPod --backoff-limit 0 --deadline 12h --ttl 90s --suspend --rescheduling Never --queue vision --max-runtime 2h " +
			"--workdir /src --env-from configmap/settings --env-from secret/wandb --pvc data.v2:/data:ro --pvc data.v2:/again --secret key:/key --shm 16Gi --service-account trainer " +
			"--dry-run -o yaml -- python train.py --lr 0.1"},
		{"an array", "run-array", "run sweep --gpus 0.5 --completions 100 --replicas 10 --dry-run -o yaml"},
		{"a server dry run has the defaults", "run-server", "run train --dry-run=server -o yaml"},
		{"without an output format it reports what it did", "run", "run train"},
		{"a dry run is reported as such", "run-dry", "run train --dry-run=server"},
		{"by name", "run-name", "run train -o name"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.golden(test.golden, strings.Fields(test.args)...)
			list, err := f.tasks.FalldioV1().GPUTasks("default").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if dry := strings.Contains(test.args, "dry-run"); dry != (len(list.Items) == 0) {
				t.Errorf("there are %d tasks, dry run %t", len(list.Items), dry)
			}
		})
	}
}

func TestRunRefusesWhatWouldGetLost(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, args, want string }{
		{"no name", "run", "run needs one name, got 0: kubectl gputask run NAME [flags] [-- COMMAND]"},
		{"two names", "run a b", "run needs one name, got 2: kubectl gputask run NAME [flags] [-- COMMAND]"},
		{"only a command", "run -- sleep 1", "run needs one name, got 0: kubectl gputask run NAME [flags] [-- COMMAND]"},
		{"a variable without a value", "run a --env A", "--env=A: must be NAME=VALUE"},
		{"a label without a key", "run a --label =x", "--label==x: must be KEY=VALUE"},
		{"variables from nowhere", "run a --env-from settings", "--env-from=settings: must be configmap/NAME or secret/NAME"},
		{"variables from something else", "run a --env-from pod/x", "--env-from=pod/x: must be configmap/NAME or secret/NAME"},
		{"a volume without a path", "run a --pvc data", "--pvc=data: must be NAME:/PATH or NAME:/PATH:ro, for example dataset:/data"},
		{"a relative path", "run a --pvc data:data", "--pvc=data:data: must be NAME:/PATH or NAME:/PATH:ro, for example dataset:/data"},
		{"another mode", "run a --pvc data:/data:rw", "--pvc=data:/data:rw: must be NAME:/PATH or NAME:/PATH:ro, for example dataset:/data"},
		{"a Secret to write to", "run a --secret key:/key:ro", "--secret=key:/key:ro: must be NAME:/PATH, for example wandb:/secrets/wandb"},
		{"no amount of memory", "run a --shm 16GB", "--shm=16GB: must be an amount of memory, for example 16Gi"},
		{"a file that there is not", "run a -f none.yaml", "--filename: open none.yaml: no such file or directory"},
		{"half a second", "run a --deadline 1500ms", "--deadline=1.5s: must be a number of whole seconds, for example 90s or 12h"},
		{"a negative time", "run a --ttl -1s", "--ttl=-1s: must be a number of whole seconds, for example 90s or 12h"},
		{"an unknown dry run", "run a --dry-run=maybe", "--dry-run=maybe: must be one of none, client, server"},
		{"waiting with a dry run", "run a --dry-run --wait", "--wait: there is nothing to wait for with --dry-run=client"},
		{"an unknown thing to wait for", "run a --wait=pending", "--wait=pending: must be one of running, finished"},
		{"an unknown output", "run a -o table", "--output=table: must be one of json, yaml, name, jsonpath=, jsonpath-file=, jsonpath-as-json=, go-template=, go-template-file=, custom-columns=, custom-columns-file="},
		{"no name to explain", "explain", "explain needs names, or -l SELECTOR, or --all, and only one of them"},
		{"nothing to suspend", "suspend", "suspend needs names, or -l SELECTOR, or --all, and only one of them"},
		{"no plan to show", "plan show", "show needs one name, got 0: kubectl gputask plan show NAME [flags]"},
		{"no plan to approve", "plan approve", "approve needs a name: kubectl gputask plan approve NAME... [flags]"},
		{"an unknown command", "foresee", `unknown command "foresee" for "kubectl gputask"`},
		{"options of a preview without one", "plan --max-moves 3", "--max-moves: is for --preview"},
		{"an unknown colour", "list --color=red", "--color=red: must be one of auto, always, never"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if got := errorText(f.run(strings.Fields(test.args)...)); got != test.want {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}

// A base is a task in a file, with a container that has a name of its own.
const base = `
apiVersion: falldio.com/v1
kind: GPUTask
metadata: {%s}
spec:
  gpu-amount: "1"
  replicas: 4
  priority: low
  template:
    metadata: {labels: {team: vision}}
    spec:
      serviceAccountName: trainer
      containers:
      - name: train
        image: example.com/a:v1
        env: [{name: A, value: "1"}, {name: B, value: "2"}]
        volumeMounts: [{name: cache, mountPath: /cache}]
      volumes: [{name: cache, emptyDir: {}}]
`

func TestFlagsWinOverTheFileThatTheTaskIsIn(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"which has all of the task", "run-file", "run -f - --dry-run -o yaml"},
		{"and add to it", "run-file-flags", "run other -f - -g 8 --priority high --env B=3 --env C=4 --pvc data:/data --label app=x --dry-run -o yaml -n team-a -- python train.py"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.env.In = strings.NewReader(fmt.Sprintf(base, "name: train, namespace: lab"))
			f.golden(test.golden, strings.Fields(test.args)...)
		})
	}
	for name, test := range map[string]struct{ in, want string }{
		"without a name": {fmt.Sprintf(base, ""), "--filename=-: the GPUTask has no metadata.name: kubectl gputask run NAME -f -"},
		"of several":     {fmt.Sprintf(base, "name: a") + "---" + fmt.Sprintf(base, "name: b"), "--filename=-: must have one GPUTask, but has 2: `kubectl apply -f` creates several"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.env.In = strings.NewReader(test.in)
			if got := errorText(f.run("run", "-f", "-", "--dry-run")); got != test.want {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}

func TestAFileOfASuspendedTaskBesideAnotherObject(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.env.In = strings.NewReader("kind: Secret\napiVersion: v1\nmetadata: {name: wandb}\n---" + fmt.Sprintf(base, "name: train") + "  suspend: true\n")
	if err := f.run("run", "-f", "-", "--suspend=false"); err != nil {
		t.Fatal(err)
	}
	task, err := f.tasks.FalldioV1().GPUTasks("default").Get(t.Context(), "train", metav1.GetOptions{})
	if err != nil || task.Spec.Suspend == nil || *task.Spec.Suspend {
		t.Errorf("%v, suspend: %v", err, task.Spec.Suspend)
	}
	if want := "Not created: document 1: Secret wandb\n"; !strings.Contains(f.errOut.String(), want) {
		t.Errorf("it says %q, want %q", f.errOut.String(), want)
	}
}

func TestVolumesOfFlagsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	long := strings.Repeat("x", 80)
	if err := f.run("run", "train", "--pvc", "a.b:/1", "--pvc", "a-b:/2", "--pvc", "a-b:/3", "--secret", long+":/4"); err != nil {
		t.Fatal(err)
	}
	task, err := f.tasks.FalldioV1().GPUTasks("default").Get(t.Context(), "train", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, volume := range task.Spec.Template.Spec.Volumes {
		names = append(names, volume.Name)
	}
	if want := []string{"pvc-a-b", "pvc-a-b-2", "secret-" + long[:53]}; !slices.Equal(names, want) {
		t.Errorf("volumes %q, want %q", names, want)
	}
}

// lives makes a task go through statuses, one at each get.
func (f *fixture) lives(statuses ...v1.GPUTaskStatus) {
	looks := 0
	f.tasks.PrependReactor("get", "gputasks", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, err := f.tasks.Tracker().Get(action.GetResource(), action.GetNamespace(), action.(clienttesting.GetAction).GetName())
		if err != nil {
			return true, nil, err
		}
		task := object.DeepCopyObject().(*v1.GPUTask)
		task.Status = statuses[min(looks, len(statuses)-1)]
		looks++
		return true, task, nil
	})
}

func TestRunWaits(t *testing.T) {
	t.Parallel()
	statuses := []v1.GPUTaskStatus{
		{},
		{Phase: v1.PhasePending, Message: "both Pods wait for a node"},
		{Phase: v1.PhasePending, Message: "both Pods wait for a node"},
		{Phase: v1.PhaseRunning, Running: 2, Message: "running on h100-0"},
	}
	tests := []struct {
		name, golden, wait string
		last               v1.GPUTaskStatus
		fails              string
	}{
		{"until it runs", "wait-running", "--wait=running", v1.GPUTaskStatus{Phase: v1.PhaseSucceeded}, ""},
		{"until it has succeeded", "wait-succeeded", "--wait", v1.GPUTaskStatus{Phase: v1.PhaseSucceeded, Message: "all Pods succeeded"}, ""},
		{"until it has failed", "wait-failed", "--wait", v1.GPUTaskStatus{Phase: v1.PhaseFailed, Message: "exit code 3"}, "task train failed: exit code 3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.lives(append(statuses[:len(statuses):len(statuses)], test.last)...)
			if test.fails == "" {
				f.golden(test.golden, "run", "train", "--replicas", "2", test.wait)
				return
			}
			if got := errorText(f.run("run", "train", "--replicas", "2", test.wait)); got != test.fails {
				t.Errorf("error %q, want %q", got, test.fails)
			}
		})
	}
}

func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	pending := v1.GPUTaskStatus{Phase: v1.PhasePending}
	t.Run("after the time limit, with what to do next", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.lives(pending)
		err := f.run("run", "train", "--wait", "--timeout", "20s")
		if err == nil || !strings.Contains(err.Error(), "timed out") || !strings.Contains(err.Error(), "kubectl gputask explain") {
			t.Errorf("error: %v", err)
		}
	})
	t.Run("when the task is deleted", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.tasks.PrependReactor("get", "gputasks", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(schema.GroupResource{}, "train")
		})
		if got := errorText(f.run("run", "train", "--wait")); got != "task train was deleted in the meantime" {
			t.Errorf("error %q", got)
		}
	})
}

func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	suspended := func(name string) bool {
		t.Helper()
		task, err := f.tasks.FalldioV1().GPUTasks("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return task.Spec.Suspend != nil && *task.Spec.Suspend
	}
	f.golden("suspend", "suspend", "big", "small-0")
	if !suspended("big") || !suspended("small-0") || suspended("small-1") {
		t.Error("the named tasks, and only these, should be suspended")
	}
	f.golden("suspend-again", "suspend", "big")
	f.golden("resume", "resume", "big", "small-1")
	if suspended("big") {
		t.Error("big is still suspended")
	}
	if got := errorText(f.run("suspend", "broken")); got != "task broken can't be suspended: it has Failed" {
		t.Errorf("error %q", got)
	}
	if err := f.run("resume", "nobody"); !apierrors.IsNotFound(err) {
		t.Errorf("error of a task that does not exist: %v", err)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, golden, args string
		left               []string
	}{
		{"by name", "delete", "delete big broken --wait=false", []string{"fresh", "small-0", "small-1", "small-2", "small-3"}},
		{"by label", "delete-selector", "delete -l team=vision --wait=false", []string{"broken", "fresh", "small-0", "small-1", "small-2", "small-3"}},
		{"all", "delete-all", "delete --all --wait=false", nil},
		{"a missing one is ignored", "delete-ignored", "delete nobody --ignore-not-found", []string{"big", "broken", "fresh", "small-0", "small-1", "small-2", "small-3"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := withTasks(t)
			f.golden(test.golden, strings.Fields(test.args)...)
			list, err := f.tasks.FalldioV1().GPUTasks("default").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for i := range list.Items {
				left = append(left, list.Items[i].Name)
			}
			if strings.Join(left, " ") != strings.Join(test.left, " ") {
				t.Errorf("left: %v, want %v", left, test.left)
			}
		})
	}
}

func TestDeleteWaitsForThePods(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	looks := 0
	f.kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		looks++
		if looks > 3 { // the garbage collector is done
			return true, &corev1.PodList{}, nil
		}
		return false, nil, nil
	})
	if err := f.run("delete", "big"); err != nil {
		t.Fatal(err)
	}
	if looks <= 3 {
		t.Errorf("it returned after %d looks, while the Pods were there", looks)
	}
	err := withTasks(t).run("delete", "big", "--timeout", "20s") // nothing deletes the Pods here
	if err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("error of Pods that stay: %v", err)
	}
}

func TestDeleteNeedsToKnowWhat(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"delete", "delete big --all", "delete -l a=b --all", "delete big -l a=b"} {
		if got := errorText(withTasks(t).run(strings.Fields(args)...)); got != "delete needs names, or -l SELECTOR, or --all, and only one of them" {
			t.Errorf("%s: error %q", args, got)
		}
	}
}

// started sets Pods to Running.
func (f *fixture) started(names ...string) {
	f.t.Helper()
	for _, name := range names {
		pod, err := f.kube.CoreV1().Pods("default").Get(f.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			f.t.Fatal(err)
		}
		pod.Status.Phase = corev1.PodRunning
		if _, err := f.kube.CoreV1().Pods("default").UpdateStatus(f.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			f.t.Fatal(err)
		}
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"of a single Pod have no prefix", "logs-single", "logs small-0"},
		{"of a single Pod have one if requested", "logs-prefix", "logs small-0 --prefix"},
		{"of a gang name the Pods, and count those not started", "logs-gang", "logs big"},
		{"of one member of a gang", "logs-index", "logs big --index 0 --tail 10 --since 5m --timestamps"},
		{"in colours", "logs-colours", "logs crowd --color always"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := withTasks(t)
			f.waits(newTask("crowd", "h100", "1", replicas(12)), 0)
			f.started("big-0", "crowd-2", "crowd-10")
			f.golden(test.golden, strings.Fields(test.args)...)
		})
	}
	if got := errorText(withTasks(t).run("logs", "big", "--index", "2")); got != "--index=2: task big has Pods with the indexes 0, 1" {
		t.Errorf("error for an index out of range: %q", got)
	}
}
