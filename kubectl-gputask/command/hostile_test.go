// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"falldio.github.io/gpu-controller/kubectl-gputask/command"
	"falldio.github.io/gpu-controller/pkg/accounting"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// hostile would set the title of a terminal, hide what follows, go back over what was written, and turn it round.
const hostile = "\x1b]0;owned\a\x1b[8m\u009b2J\rx\b\x0e\u202e"

// inArguments is hostile without what separates arguments.
var inArguments = strings.ReplaceAll(hostile, "\r", "")

// ownStyle matches the escape sequences that the program writes itself, to a terminal.
var ownStyle = regexp.MustCompile(`\x1b\[([0-9]{1,2})?m`)

// hostileWorld is a cluster in which everybody writes such texts, names included: an API server may be anybody's, too.
func hostileWorld(t *testing.T) *fixture {
	t.Helper()
	f := withPlans(t)
	f.env.Terminal, f.env.Width = true, 200
	f.add(newNode("n"+hostile, "leaf"+hostile, "h100"+hostile, "pool"+hostile, 2, cordoned))
	conditions := []metav1.Condition{{Type: "Scheduled" + hostile, Status: metav1.ConditionFalse, Reason: "Bad" + hostile, Message: "waits" + hostile, LastTransitionTime: ago(time.Minute)}}
	texts := func(phase v1.GPUTaskPhase) func(*v1.GPUTask) {
		return func(task *v1.GPUTask) {
			task.Labels = map[string]string{"team": "vision" + hostile}
			task.Spec.GPU, task.Spec.Queue, task.Spec.Priority, task.Spec.NodePool = "h100"+hostile, "vision", "high"+hostile, "pool"+hostile
			task.Spec.DependsOn = []v1.Dependency{{Name: "first" + hostile}}
			task.Status = v1.GPUTaskStatus{Phase: phase, Message: "waits" + hostile, Nodes: []string{"n" + hostile}, Conditions: conditions}
		}
	}
	estimate := between(1, 130, 140, 160, "other"+hostile)
	f.expects(newTask("bad", "", "1", texts(v1.PhasePending)), 0, estimate)
	f.expects(newTask("bad"+inArguments, "", "1", texts(v1.PhasePending)), 0, estimate)
	f.add(newTask("failed", "", "1", texts(v1.PhaseFailed)), newTask("waiting", "", "1", texts(v1.PhaseWaiting)), newTask("suspended", "", "1", texts(v1.PhaseSuspended)))
	broken := podOf(newTask("failed", "", "1"), 0, 0)
	broken.Spec.NodeName, broken.Status = "n"+hostile, corev1.PodStatus{Phase: corev1.PodFailed, Message: "crashed" + hostile, Reason: "Bad" + hostile}
	f.add(broken, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	for _, about := range []corev1.ObjectReference{{Kind: "GPUTask", Name: "bad", UID: "uid-bad"}, {Kind: "Pod", Name: "bad", UID: "uid-pod-bad"}, {Kind: "Pod", Name: "failed", UID: "uid-pod-failed"}} {
		f.add(&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: string(about.UID), Namespace: "default"}, InvolvedObject: about, Type: corev1.EventTypeWarning, Reason: "Bad" + hostile,
			Message: "happened" + hostile, ReportingController: "somebody" + hostile, LastTimestamp: ago(time.Minute),
		})
	}
	f.add(newQueue("vision", "", "", 8, 0, func(queue *v1.GPUQueue) {
		queue.Spec.NamespaceSelector, queue.Status.Conditions = &metav1.LabelSelector{}, conditions
		queue.Spec.Resources[0].GPU = "h100" + hostile
	}))
	f.add(newPlan("bad", func(plan *v1.MovePlan) {
		plan.Spec.Reason, plan.Status.Message, plan.Spec.Moves[0].Reason, plan.Spec.Moves[0].To.Node = "because"+hostile, "waits"+hostile, "why"+hostile, "n"+hostile
	}))
	book := accounting.NewBook(testTime.Truncate(24 * time.Hour))
	book.AsOf = testTime
	book.Add(accounting.Key{Namespace: "ns" + hostile, Task: "bad" + hostile, Queue: "vision" + hostile, Model: "h100" + hostile}, testTime.Add(-time.Hour), accounting.Amounts{Used: 360_000})
	content, err := book.Encode()
	if err != nil {
		t.Fatal(err)
	}
	f.add(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: accounting.StoreNamespace, Name: accounting.StoreName(book.Day)}, BinaryData: map[string][]byte{accounting.StoreKey: content},
	})
	return f
}

// hostileCalls are calls of each command. What follows a name in an error of the API server is hostile in those that
// are "refused".
func hostileCalls(t *testing.T) map[string][]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("kind: "+hostile+"\n{"), 0o600); err != nil {
		t.Fatal(err)
	}
	name := "bad" + inArguments // only where the Pods are not looked for: clients find none by such a name
	return map[string][]string{
		"completion": {"bash"},
		"delete":     {"bad failed --wait=false", "nobody" + inArguments + " --wait=false"},
		"describe":   {"bad failed waiting suspended", "bad -o name", "bad -o jsonpath={.status.message}", "bad -o yaml"},
		"exec":       {"bad -- sh", "nobody" + inArguments + " -- sh"},
		"explain":    {"bad failed waiting suspended small-0", name, "--all -o json"},
		"help":       {"", "list", "nothing" + inArguments},
		"list":       {"", "-A -o wide", "--color=always", "-o name", "-o custom-columns=M:.status.message,N:.metadata.name", "-o go-template={{range.items}}{{.status.message}}{{end}}", "--phase=" + inArguments, "--sort-by=" + inArguments, "-x" + inArguments, "--x" + inArguments},
		"logs":       {"bad", "nobody" + inArguments, "failed --prefix", "bad --role=" + inArguments},
		"new":        {"", "jax", "nothing" + inArguments},
		"options":    {""},
		"plan":       {"", "-o wide", "show bad", "approve bad" + inArguments, "--preview"},
		"queue":      {"", "-A -o wide --running", "-o name", "describe vision", "describe vision" + inArguments, "-n ns" + inArguments},
		"replay":     {file, file + inArguments},
		"rerun":      {"failed bad", name},
		"resume":     {"suspended", name},
		"run":        {"new --wait", "new -f " + file, "new --env=" + inArguments, "new --replicas=" + inArguments, "new --pvc=" + inArguments + " -n ns" + inArguments, "new --shm=" + inArguments},
		"scale":      {"bad --replicas=2", name + " --replicas=2"},
		"suspend":    {"bad", name},
		"top":        {"--metrics=false", "nodes --metrics=false", "--metrics=false --topology-levels=x=" + v1.LabelLeaf, inArguments},
		"usage":      {"--by=task", "--by=model,queue,namespace", "--since=" + inArguments},
		"version":    {"", "--client"},
		"wait":       {"bad --timeout=20s", "nobody" + inArguments, "failed", "--all --for=" + inArguments},
		"whatif":     {"-f " + file, "-f " + file + inArguments},
	}
}

func TestNothingOfAClusterIsCarriedOutByATerminal(t *testing.T) {
	t.Parallel()
	calls := hostileCalls(t)
	servesAPage := "dashboard" // its texts are for a browser
	for _, child := range command.New(newFixture(t).env).Commands() {
		if len(calls[child.Name()]) == 0 && child.Name() != servesAPage {
			t.Errorf("no call of %s", child.Name())
		}
	}
	for name, all := range calls {
		for _, refused := range []bool{false, true} {
			for _, args := range all {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					f := hostileWorld(t)
					f.lives(v1.GPUTaskStatus{Phase: v1.PhasePending, Message: "waits" + hostile}, v1.GPUTaskStatus{Phase: v1.PhaseFailed, Message: "crashed" + hostile})
					if refused {
						f.refuseAll(errors.New(hostile))
					}
					ctx, cancel := context.WithTimeout(t.Context(), watchLimit)
					defer cancel()
					err := f.runWith(ctx, append([]string{name}, strings.Fields(args)...)...)
					if err != nil {
						command.Report(&f.errOut, err)
					}
					expectHarmless(t, args, &f.out)
					expectHarmless(t, args, &f.errOut)
				})
			}
		}
	}
}

// refuseAll has the API server refuse everything with an error.
func (f *fixture) refuseAll(err error) {
	forbidden := func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: action.GetResource().Resource}, "x"+hostile, err)
	}
	f.kube.PrependReactor("*", "*", forbidden)
	f.tasks.PrependReactor("*", "*", forbidden)
}

// expectHarmless fails the test if a terminal would do more with an output than show it.
func expectHarmless(t *testing.T, args string, out *bytes.Buffer) {
	t.Helper()
	for line := range strings.Lines(ownStyle.ReplaceAllString(out.String(), "")) {
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' || r == '\u202e' }) {
			t.Errorf("%q: %q", args, line)
		}
	}
}
