// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

var resource = schema.GroupResource{Resource: "pods"} //nolint:gochecknoglobals // a constant

func conflict() error { return apierrors.NewConflict(resource, "p", errors.New("precondition failed")) }
func timeout() error  { return apierrors.NewTimeoutError("too slow", 1) }
func broken() error   { return errors.New("connection reset by peer") }

// server is an API server with one Pod, which checks the version that a Binding is for.
type server struct {
	t      *testing.T
	client *fake.Clientset
	pod    *corev1.Pod // nil once it is gone
	// bindings, patches and gets are what happens to the next requests.
	bindings, patches, gets []func() error
	// sent is what was asked for.
	sent []string
}

// fails answers a request with an error.
func fails(err error) func() error { return func() error { return err } }

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, client: fake.NewClientset(), pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p", UID: "uid", ResourceVersion: "1",
	}}}
	s.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		binding := action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
		s.sent = append(s.sent, "bind "+binding.ResourceVersion)
		if err := next(&s.bindings); err != nil {
			return true, nil, err
		}
		return true, nil, s.bind(binding)
	})
	s.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.sent = append(s.sent, "fence")
		if err := next(&s.patches); err != nil {
			return true, nil, err
		}
		if s.pod == nil {
			return true, nil, apierrors.NewNotFound(resource, "p")
		}
		s.changed()
		return true, s.pod.DeepCopy(), nil
	})
	s.client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.sent = append(s.sent, "look")
		if err := next(&s.gets); err != nil {
			return true, nil, err
		}
		if s.pod == nil {
			return true, nil, apierrors.NewNotFound(resource, "p")
		}
		return true, s.pod.DeepCopy(), nil
	})
	return s
}

func next(list *[]func() error) error {
	if len(*list) == 0 {
		return nil
	}
	do := (*list)[0]
	*list = (*list)[1:]
	return do()
}

// changed gives the Pod another version.
func (s *server) changed() { s.pod.ResourceVersion += "1" }

func (s *server) bind(binding *corev1.Binding) error {
	switch {
	case s.pod == nil:
		return apierrors.NewNotFound(resource, "p")
	case s.pod.UID != binding.UID, s.pod.ResourceVersion != binding.ResourceVersion, s.pod.Spec.NodeName != "":
		return conflict()
	}
	s.pod.Spec.NodeName = binding.Target.Name
	if s.pod.Annotations == nil {
		s.pod.Annotations = map[string]string{}
	}
	maps.Copy(s.pod.Annotations, binding.Annotations)
	s.changed()
	return nil
}

// cards is the assignment of cards that the Binding has.
const cards = `{"version":"v1","containers":{"c":{"falldio.com/gpu":["GPU-a"]}}}`

// mine is the Binding that the test sends.
func (s *server) mine() *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{UID: "uid", ResourceVersion: s.pod.ResourceVersion, Annotations: map[string]string{inventory.AssignmentAnnotation: cards}},
		Target:     corev1.ObjectReference{Name: "node"},
	}
}

type leader bool

func (l leader) Leads() bool { return bool(l) }

// context has a logger that fails no test that has ended.
func (s *server) context() context.Context {
	return klog.NewContext(s.t.Context(), ktesting.NewLogger(s.t, ktesting.NewConfig()))
}

func TestBind(t *testing.T) {
	tests := map[string]struct {
		server func(*server)
		place  func(*server) error
		// err is a part of the error; "" for none.
		err string
		// node is where the Pod is in the end.
		node string
		sent []string
	}{
		"a Binding is for one version of its Pod": {
			server: func(*server) {}, node: "node", sent: []string{"bind 1"},
		},
		"nothing is sent if the place is lost": {
			server: func(*server) {}, place: func(*server) error { return errors.New("the place was lost") }, err: "the place was lost", sent: nil,
		},
		"the Pod has changed since": {
			server: func(s *server) { s.changed() }, node: "node", sent: []string{"bind 1", "look", "bind 11"},
		},
		"the Pod has changed, and its place was lost by that": {
			server: func(s *server) { s.changed() },
			place: func(s *server) error {
				if len(s.sent) > 0 {
					return errors.New("the place was lost")
				}
				return nil
			},
			err: "the place was lost", sent: []string{"bind 1", "look"},
		},
		"it changes all the time": {
			server: func(s *server) {
				for range maxAttempts {
					s.bindings = append(s.bindings, fails(conflict()))
				}
			},
			err: "changed 10 times", sent: slices.Repeat([]string{"bind 1", "look"}, maxAttempts),
		},
		"a Binding that timed out and was not carried out is sent again, for another version": {
			server: func(s *server) { s.bindings = []func() error{fails(timeout())} },
			node:   "node", sent: []string{"bind 1", "fence", "bind 11"},
		},
		"a Binding that timed out and takes effect before the fence": {
			server: func(s *server) {
				s.bindings = []func() error{func() error { return errors.Join(s.bind(s.mine()), timeout()) }}
			},
			node: "node", sent: []string{"bind 1", "fence"},
		},
		"a Binding whose connection broke, while the API server can't be reached for a while": {
			server: func(s *server) {
				s.bindings = []func() error{fails(broken())}
				s.patches = []func() error{fails(broken()), fails(timeout())}
			},
			node: "node", sent: []string{"bind 1", "fence", "fence", "fence", "bind 11"},
		},
		"a copy of the Binding came first": {
			server: func(s *server) {
				s.bindings = []func() error{func() error { return errors.Join(s.bind(s.mine()), conflict()) }}
			},
			node: "node", sent: []string{"bind 1", "look"},
		},
		"another scheduler has bound the Pod to the same node with other cards": {
			server: func(s *server) {
				s.pod.Spec.NodeName, s.pod.Annotations = "node", map[string]string{inventory.AssignmentAnnotation: "others"}
			},
			err: "bound to node node by another scheduler", node: "node", sent: []string{"bind 1", "look"},
		},
		"the node agent has added to what the Binding says": {
			server: func(s *server) {
				s.bindings = []func() error{func() error {
					err := s.bind(s.mine())
					s.pod.Annotations[inventory.AssignmentAnnotation] = strings.Replace(s.pod.Annotations[inventory.AssignmentAnnotation], `{`, `{"enforcement":{"c":"none"},`, 1)
					return errors.Join(err, conflict())
				}}
			},
			node: "node", sent: []string{"bind 1", "look"},
		},
		"another scheduler has bound the Pod": {
			server: func(s *server) { s.pod.Spec.NodeName = "other" },
			err:    "bound to node other by another scheduler", node: "other", sent: []string{"bind 1", "look"},
		},
		"the Pod is being deleted": {
			server: func(s *server) {
				s.pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				s.bindings = []func() error{fails(conflict())}
			},
			err: "being deleted", sent: []string{"bind 1", "look"},
		},
		"the Pod got scheduling gates": {
			server: func(s *server) {
				s.pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x"}}
				s.bindings = []func() error{fails(conflict())}
			},
			err: "scheduling gates", sent: []string{"bind 1", "look"},
		},
		"the Pod is gone": {
			server: func(s *server) { s.pod = nil }, err: "not found", sent: []string{"bind 1"},
		},
		"the Pod is deleted while it is unknown whether it was bound": {
			server: func(s *server) {
				s.bindings = []func() error{func() error { s.pod = nil; return timeout() }}
			},
			err: ErrGone.Error(), sent: []string{"bind 1", "fence"},
		},
		"another Pod has the name": {
			server: func(s *server) { s.pod.UID = "other" }, err: ErrGone.Error(), sent: []string{"bind 1", "look"},
		},
		"a Binding that is refused for good": {
			server: func(s *server) { s.bindings = []func() error{fails(apierrors.NewForbidden(resource, "p", nil))} },
			err:    "forbidden", sent: []string{"bind 1"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			pod := s.pod.DeepCopy()
			test.server(s)
			fencer := NewFencer(s.client, clock.RealClock{}, "this")
			err := NewBinder(s.client, leader(true), fencer).Bind(s.context(), pod, "node", func() (string, error) {
				if test.place != nil {
					return cards, test.place(s)
				}
				return cards, nil
			})
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got the error %v, want %q", err, test.err)
			}
			if !slices.Equal(s.sent, test.sent) {
				t.Errorf("it sent %q, want %q", s.sent, test.sent)
			}
			if s.pod != nil && s.pod.Spec.NodeName != test.node {
				t.Errorf("the Pod is on node %q, want %q", s.pod.Spec.NodeName, test.node)
			}
		})
	}
}

// A campaign of test/chaos found a Pod on a node whose GPUs were not known by name yet, with the
// assignment that its creator had written.
func TestABoundPodHasNoAssignmentButTheSchedulers(t *testing.T) {
	const written = `{"version":"v1","containers":{"c":{"falldio.com/gpu":["GPU-of-somebody-else"]}}}`
	for name, assignment := range map[string]string{"on a node whose GPUs have names": cards, "on a node whose GPUs have none": ""} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.pod.Annotations = map[string]string{inventory.AssignmentAnnotation: written}
			binder := NewBinder(s.client, leader(true), NewFencer(s.client, clock.RealClock{}, "this"))
			if err := binder.Bind(s.context(), s.pod.DeepCopy(), "node", func() (string, error) { return assignment, nil }); err != nil {
				t.Fatal(err)
			}
			if got := s.pod.Annotations[inventory.AssignmentAnnotation]; got != assignment {
				t.Errorf("the Pod has the assignment %s, want %q", got, assignment)
			}
		})
	}
}

func TestABoundPodDoesNotSayWhyItWaited(t *testing.T) {
	s := newServer(t)
	s.pod.Annotations = map[string]string{v1.AnnotationWaitingReason: "{}"}
	binder := NewBinder(s.client, leader(true), NewFencer(s.client, clock.RealClock{}, "this"))
	if err := binder.Bind(s.context(), s.pod.DeepCopy(), "node", func() (string, error) { return cards, nil }); err != nil {
		t.Fatal(err)
	}
	if got := s.pod.Annotations[v1.AnnotationWaitingReason]; got != "" {
		t.Errorf("it says %s", got)
	}
}

// term is a lease that a test takes away and gives back.
type term struct{ held atomic.Bool }

func (l *term) Leads() bool { return l.held.Load() }

func TestABindingWaitsUntilTheLeaseIsHeldAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	fakeClock, lease := clocktesting.NewFakeClock(time.Now()), &term{}
	placed := atomic.Bool{}
	bound := make(chan error, 1)
	go func() {
		bound <- NewBinder(s.client, lease, NewFencer(s.client, fakeClock, "this")).
			Bind(s.context(), s.pod.DeepCopy(), "node", func() (string, error) { placed.Store(true); return cards, nil })
	}()
	for range 3 {
		for !fakeClock.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		if len(s.sent) > 0 || placed.Load() {
			t.Fatalf("without the lease %q was sent; it has looked for the place: %t", s.sent, placed.Load())
		}
		fakeClock.Step(leasePeriod)
	}
	for !fakeClock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	lease.held.Store(true)
	fakeClock.Step(leasePeriod)
	if err := <-bound; err != nil || s.pod.Spec.NodeName != "node" {
		t.Errorf("the Pod is on node %q: %v", s.pod.Spec.NodeName, err)
	}
}

func TestABindingThatWaitsForTheLeaseEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	ctx, cancel := context.WithCancel(s.context())
	cancel()
	err := NewBinder(s.client, leader(false), NewFencer(s.client, clock.RealClock{}, "this")).
		Bind(ctx, s.pod.DeepCopy(), "node", func() (string, error) { return "", nil })
	if !errors.Is(err, context.Canceled) || len(s.sent) > 0 {
		t.Errorf("got %v, and %q was sent", err, s.sent)
	}
}

func TestBindWaitsForAnAnswerUntilTheProcessEnds(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(s.context())
	s.bindings = []func() error{fails(timeout())}
	s.patches = []func() error{fails(broken()), func() error { cancel(); return broken() }}
	err := NewBinder(s.client, leader(true), NewFencer(s.client, clock.RealClock{}, "this")).
		Bind(ctx, s.pod.DeepCopy(), "node", func() (string, error) { return "", nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestAFenceThatIsRefusedEndsWhenNothingCanBeOnItsWay(t *testing.T) {
	s := newServer(t)
	fakeClock := clocktesting.NewFakeClock(time.Now())
	refused := apierrors.NewForbidden(resource, "p", nil)
	for range 3 {
		s.patches = append(s.patches, func() error {
			go func() { // the pause that follows
				for !fakeClock.HasWaiters() {
					time.Sleep(time.Millisecond)
				}
				fakeClock.Step(inFlightLimit/2 + time.Second)
			}()
			return refused
		})
	}
	_, err := NewFencer(s.client, fakeClock, "this").Fence(s.context(), s.pod)
	if !apierrors.IsForbidden(err) || len(s.sent) != 3 {
		t.Errorf("got %v after %q", err, s.sent)
	}
}

func TestWhatAnErrorSaysOfABinding(t *testing.T) {
	status := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "POST", resource, "p", "", 0, true)
	}
	tests := map[string]struct {
		err  error
		want bool
	}{
		"bad request":        {status(http.StatusBadRequest), true},
		"no rights":          {status(http.StatusForbidden), true},
		"no such Pod":        {status(http.StatusNotFound), true},
		"conflict":           {status(http.StatusConflict), false},
		"too many requests":  {status(http.StatusTooManyRequests), false},
		"internal error":     {status(http.StatusInternalServerError), false},
		"bad gateway":        {status(http.StatusBadGateway), false},
		"unavailable":        {status(http.StatusServiceUnavailable), false},
		"gateway timeout":    {status(http.StatusGatewayTimeout), false},
		"connection refused": {broken(), false},
		"deadline":           {context.DeadlineExceeded, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := isRejection(test.err); got != test.want {
				t.Errorf("it refuses for good: %v, want %v", got, test.want)
			}
		})
	}
}

func TestInstanceOf(t *testing.T) {
	for mark, want := range map[string]string{"": "", "host_uuid/7": "host_uuid", "a/b/7": "a/b", "nonsense": ""} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID("u"), Annotations: map[string]string{v1.AnnotationSchedulerInstance: mark}}}
		if got := InstanceOf(pod); got != want {
			t.Errorf("%q: got %q, want %q", mark, got, want)
		}
	}
}

func TestEachMarkIsAnother(t *testing.T) {
	f := NewFencer(nil, clock.RealClock{}, "this")
	if first, second := f.mark(), f.mark(); first == second {
		t.Errorf("both are %s: a Pod that bears it would not change", first)
	}
}
