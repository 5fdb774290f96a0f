// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"falldio.github.io/gpu-controller/kubectl-gputask/command"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// messages returns the texts of a command's errors.
func messages(err error) []string {
	var texts []string
	for _, one := range command.Errors(err) {
		texts = append(texts, errorText(one))
	}
	return texts
}

func TestOneTaskThatFailsDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	const missing = `there is no task "nobody" in namespace default`
	tests := []struct {
		name, args string
		want       []string
		out        string
	}{
		{"delete", "delete nobody broken none --wait=false", []string{missing, `there is no task "none" in namespace default`}, "gputask.falldio.com/broken deleted\n"},
		{"delete ignores only what is missing", "delete pod/a broken nobody --wait=false --ignore-not-found", []string{"pod/a: is not the name of a GPUTask"}, "gputask.falldio.com/broken deleted\n"},
		{"suspend", "suspend broken nobody big", []string{missing, "task broken can't be suspended: it has Failed"}, "gputask.falldio.com/big suspended\n"},
		{"list", "list nobody big -o name", []string{missing}, "gputask.falldio.com/big\n"},
		{"describe", "describe big nobody -o name", []string{missing}, "gputask.falldio.com/big\n"},
		{"explain", "explain nobody big -o jsonpath={.items[*].task.metadata.name}", []string{missing}, "big"},
		{"rerun", "rerun nobody big broken", []string{missing, "task big can't be run again: it has not finished, it is Pending"}, "gputask.falldio.com/broken-r2 created from broken\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := withTasks(t)
			err := f.run(strings.Fields(test.args)...)
			if diff := cmp.Diff(test.want, messages(err)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if command.ExitCode(err) != 1 {
				t.Errorf("exit code %d", command.ExitCode(err))
			}
			if diff := cmp.Diff(test.out, f.out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADeletionThatIsRefusedDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	f.tasks.PrependReactor("delete", "gputasks", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.(clienttesting.DeleteAction).GetName() != "broken" {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "gputasks"}, "broken", nil)
	})
	if err := f.run("delete", "--all", "--wait=false"); !apierrors.IsForbidden(err) {
		t.Errorf("error: %v", err)
	}
	if got := strings.Count(f.out.String(), "deleted\n"); got != 6 {
		t.Errorf("%d tasks were deleted, want all but one of 7:\n%s", got, f.out.String())
	}
}

func TestTasksAreChosenByLabelOrAllTogether(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"suspended by label", "suspend-selector", "suspend -l team=vision"},
		{"suspended all, but those that have finished", "suspend-all", "suspend --all"},
		{"none of which is suspended", "resume-all", "resume --all"},
		{"described", "describe-selector", "describe -l team=vision"},
		{"explained", "explain-several", "explain big small-0"},
		{"none", "describe-none", "describe -l team=nobody"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			withTasks(t).golden(test.golden, strings.Fields(test.args)...)
		})
	}
}

func TestListLooksLikeKubectl(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"some names, in their order", "list-names", "list small-1 big gt/small-0"},
		{"one name is one object", "list-one", "list big -o jsonpath={.kind}/{.metadata.name}"},
		{"by a field of text", "list-sorted", "list --sort-by=.status.phase"},
		{"by an amount", "list-sorted-amount", "list --sort-by={.spec.gpu-amount} --no-headers"},
		{"with a template", "list-jsonpath", "list -o jsonpath={range.items[*]}{.metadata.name}={.status.phase},{end}"},
		{"with columns", "list-columns", "list -o custom-columns=NAME:.metadata.name,GPUS:.spec.gpu-amount --sort-by=metadata.name"},
		{"with columns, without their heading", "list-columns-only", "list -o custom-columns=NAME:.metadata.name --no-headers"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			withTasks(t).golden(test.golden, strings.Fields(test.args)...)
		})
	}
}

func TestListRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, args, want string }{
		{"a field that there is not", "list --sort-by=.spec.colour", "--sort-by=.spec.colour: none of the tasks has this field"},
		{"a field without an order", "list --sort-by=.spec", "--sort-by=.spec: is not a field with a single value"},
		{"a wrong template", "list -o jsonpath={.a", "--output=jsonpath={.a: error parsing jsonpath {.a, unclosed action"},
		{"a missing template", "list -o jsonpath", "--output=jsonpath: requires a template: jsonpath=TEMPLATE"},
		{"names and labels", "list big -l a=b", "list takes names or -l SELECTOR, not both"},
		{"names of all namespaces", "list big -A", "list takes names or --all-namespaces, not both: names are looked up in one namespace"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := errorText(withTasks(t).run(strings.Fields(test.args)...)); got != test.want {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}

// screen is an output that a test can wait for.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
	// cancel is called when stop reports that enough was written.
	cancel context.CancelFunc
	stop   func(text string) bool
}

func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(text)
	if s.stop != nil && s.stop(s.text.String()) {
		s.cancel()
	}
	return len(text), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

var _ io.Writer = &screen{}

// watchLimit is how long a test waits for something that takes milliseconds.
const watchLimit = 30 * time.Second

func TestListWatches(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	ctx, cancel := context.WithTimeout(t.Context(), watchLimit)
	defer cancel()
	out := &screen{cancel: cancel, stop: func(text string) bool { return strings.Contains(text, "Deleted") }}
	f.env.Out = out
	ended := make(chan error, 1)
	go func() { ended <- f.runWith(ctx, "list", "big", "small-0", "--watch") }()
	api := f.tasks.FalldioV1().GPUTasks("default")
	version := 0
	// The fake API server loses what happens before the watch: the first two lines may be from
	// the lists.
	for ctx.Err() == nil && strings.Count(out.String(), "\nbig ") < 3 {
		version++
		f.change(f.tasks.Tracker(), gputasks(), "big", func(object runtime.Object) {
			task := object.(*v1.GPUTask)
			task.ResourceVersion, task.Status.Phase, task.Status.Running, task.Status.Message = string(rune('a'+version%26)), v1.PhaseRunning, 2, "running"
		})
		time.Sleep(time.Millisecond)
	}
	if err := api.Delete(ctx, "small-1", metav1.DeleteOptions{}); err != nil { // not watched
		t.Fatal(err)
	}
	if err := api.Delete(ctx, "small-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if !strings.HasPrefix(lines[0], "NAME ") || strings.Count(out.String(), "NAME ") != 1 {
		t.Errorf("not one heading:\n%s", out.String())
	}
	if last := strings.Fields(lines[len(lines)-1]); last[0] != "small-0" || last[1] != "Deleted" {
		t.Errorf("the last line is %q", lines[len(lines)-1])
	}
	if !strings.Contains(out.String(), "2/2") || strings.Contains(out.String(), "small-1") {
		t.Errorf("want the changes of big, and not small-1, which was not asked for:\n%s", out.String())
	}
}

func TestListWatchesWithColumnsUnderOneHeading(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	ctx, cancel := context.WithTimeout(t.Context(), watchLimit)
	defer cancel()
	out := &screen{cancel: cancel, stop: func(text string) bool { return strings.Contains(text, "changed") }}
	f.env.Out = out
	ended := make(chan error, 1)
	go func() { ended <- f.runWith(ctx, "list", "-w", "-o", "custom-columns=MESSAGE:.status.message") }()
	for version := 0; ctx.Err() == nil; version++ { // the fake API server loses what happens before the watch
		f.change(f.tasks.Tracker(), gputasks(), "big", func(object runtime.Object) {
			task := object.(*v1.GPUTask)
			task.ResourceVersion, task.Status.Message = string(rune('a'+version%26)), "changed"
		})
		time.Sleep(time.Millisecond)
	}
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "MESSAGE"); got != 1 {
		t.Errorf("%d headings:\n%s", got, out.String())
	}
}

func TestTopWatchesAndListsOnce(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	f.env.Terminal = true
	ctx, cancel := context.WithTimeout(t.Context(), watchLimit)
	defer cancel()
	const refreshes = 5
	f.env.Out = &screen{cancel: cancel, stop: func(text string) bool { return strings.Count(text, "12:00:00 UTC") == refreshes }}
	if err := f.runWith(ctx, "top", "--watch", "--interval", "1s", "--metrics=false", "--color=never"); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := f.env.Out.(*screen).String(); !strings.HasPrefix(got, "\x1b[H\x1b[J12:00:00 UTC\n") || !strings.Contains(got, "h100-0") {
		t.Errorf("it shows:\n%q", got)
	}
	full := 0
	for _, action := range f.kube.Actions() {
		list, isList := action.(clienttesting.ListActionImpl)
		if isList && action.GetResource().Resource == "pods" && list.ListOptions.Limit != 1 {
			full++
		}
	}
	if full != 1 {
		t.Errorf("all Pods were listed %d times in %d refreshes, want once", full, refreshes)
	}
}

func TestTopShowsTheSameWhenItWatches(t *testing.T) {
	t.Parallel()
	f := mixed(t)
	if err := f.run("top", "--metrics=false", "-o", "yaml"); err != nil {
		t.Fatal(err)
	}
	want := f.out.String()
	ctx, cancel := context.WithTimeout(t.Context(), watchLimit)
	defer cancel()
	f.env.Out = &screen{cancel: cancel, stop: func(string) bool { return true }}
	if err := f.runWith(ctx, "top", "--watch", "--metrics=false", "-o", "yaml"); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, f.env.Out.(*screen).String()); diff != "" {
		t.Errorf("(-once +watched):\n%s", diff)
	}
}

func TestTopSeesChangesWhileItWatches(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	ctx, cancel := context.WithTimeout(t.Context(), watchLimit)
	defer cancel()
	f.env.Out = &screen{cancel: cancel, stop: func(text string) bool {
		if strings.Count(text, "UTC") >= 2 { // the fake API server loses what happens before the watch
			f.change(f.kube.Tracker(), corev1.SchemeGroupVersion.WithResource("pods"), "small-0", func(object runtime.Object) {
				object.(*corev1.Pod).Status.Phase = corev1.PodSucceeded
			})
		}
		return strings.Contains(text, "h100-0 ........")
	}}
	err := f.runWith(ctx, "top", "--watch", "--interval", "1s", "--metrics=false", "--color=never")
	if got := f.env.Out.(*screen).String(); !strings.Contains(got, "h100-0 ........") {
		t.Errorf("error %v, the GPUs of a Pod that has ended are still in use:\n%s", err, got[max(0, len(got)-500):])
	}
}

func TestTopWritesNothingButJSONIfAskedTo(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	ctx, cancel := context.WithTimeout(t.Context(), watchLimit)
	defer cancel()
	f.env.Out = &screen{cancel: cancel, stop: func(text string) bool { return strings.Count(text, "\n}\n") == 2 }}
	_ = f.runWith(ctx, "top", "--watch", "--interval", "1s", "--metrics=false", "-o", "json")
	if got := f.env.Out.(*screen).String(); !strings.HasPrefix(got, "{\n") {
		t.Errorf("it shows:\n%q", got)
	}
}

func TestTopThatMayNotWatchSaysSo(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	f.kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	})
	if err := f.run("top", "--watch"); !apierrors.IsForbidden(err) {
		t.Errorf("error: %v", err)
	}
}
