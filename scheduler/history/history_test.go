// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	namespace, name = "system", "gpu-scheduler-history"
	period          = 5 * time.Minute
	// limit is how long a test waits for a condition.
	limit = 30 * time.Second
)

// learner learns lines of text, the best ones last.
type learner struct {
	mu    sync.Mutex
	lines []string
}

func (l *learner) learn(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *learner) known() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, " ")
}

func (l *learner) section(name string, most int) Section {
	return Section{
		Name: name, Most: most,
		Encode: func(part float64) ([]byte, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			return []byte(strings.Join(l.lines[len(l.lines)-int(part*float64(len(l.lines))):], "\n")), nil
		},
		Restore: func(data []byte) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if string(data) == "broken" {
				return errors.New("is broken")
			}
			l.lines = append(strings.Split(string(data), "\n"), l.lines...)
			return nil
		},
	}
}

// leader leads if it is told to.
type leader struct {
	mu       sync.Mutex
	leads    bool
	acquired chan struct{}
}

func newLeader() *leader { return &leader{leads: true, acquired: make(chan struct{})} }

func (l *leader) Acquired() <-chan struct{} { return l.acquired }

func (l *leader) Leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leads
}

func (l *leader) set(leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leads = leads
}

// process is a scheduler that keeps what it learns.
type process struct {
	*Keeper
	*learner
	t      *testing.T
	kube   *fake.Clientset
	clock  *clocktesting.FakeClock
	leader *leader
}

func newProcess(t *testing.T, kube *fake.Clientset) *process {
	t.Helper()
	p := &process{t: t, learner: &learner{}, kube: kube, clock: clocktesting.NewFakeClock(time.Now()), leader: newLeader()}
	p.Keeper = NewKeeper(kube, p.clock, p.leader, Place{Namespace: namespace, Name: name, Period: period}, []Section{p.section("lines", 1000)})
	return p
}

// start lets the process become the leader and waits until it has restored the history, or has failed to.
func (p *process) start() {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	p.t.Cleanup(func() { cancel(); running.Wait() })
	close(p.leader.acquired)
	p.eventually("it waits for the next write", p.clock.HasWaiters)
}

// pass lets a period pass, and waits until what is due is done.
func (p *process) pass(duration time.Duration) {
	p.t.Helper()
	p.clock.Step(duration)
	p.eventually("it waits for the next write", p.clock.HasWaiters)
}

func (p *process) eventually(what string, holds func() bool) {
	p.t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > limit {
			p.t.Fatalf("it never happened that %s", what)
		}
	}
}

// writes counts the requests that change something.
func (p *process) writes() (count int) {
	for _, action := range p.kube.Actions() {
		if action.GetVerb() != "get" {
			count++
		}
	}
	return count
}

// configMap returns what is kept; nil if nothing is.
func configMap(t *testing.T, kube *fake.Clientset) *corev1.ConfigMap {
	t.Helper()
	object, err := kube.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func TestWhatWasLearnedSurvives(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	first := newProcess(t, kube)
	first.start()
	first.learn("a")
	first.pass(period)
	first.learn("b")
	first.pass(period)
	second := newProcess(t, kube)
	second.learn("c") // before it leads
	second.start()
	if got := second.known(); got != "a b c" {
		t.Errorf("it knows %q", got)
	}
	second.learn("d")
	second.Close(t.Context())
	third := newProcess(t, kube)
	third.start()
	if got := third.known(); got != "a b c d" {
		t.Errorf("after a proper end, it knows %q", got)
	}
}

func TestItIsWrittenOnceInAPeriodIfSomethingWasLearned(t *testing.T) {
	t.Parallel()
	p := newProcess(t, fake.NewClientset())
	p.start()
	p.learn("a")
	p.learn("b")
	p.pass(period)
	if got := p.writes(); got != 1 {
		t.Errorf("%d writes, want 1", got)
	}
	p.pass(period)
	p.Close(t.Context())
	if got := p.writes(); got != 1 {
		t.Errorf("%d writes, want 1: nothing was learned since", got)
	}
}

func TestOnlyTheLeaderWrites(t *testing.T) {
	t.Parallel()
	p := newProcess(t, fake.NewClientset())
	p.learn("a")
	p.leader.set(false)
	p.Close(t.Context()) // it never led
	p.start()
	p.pass(period)
	p.Close(t.Context())
	if got := p.writes(); got != 0 {
		t.Errorf("%d writes, want none", got)
	}
}

func TestABrokenHistoryIsIgnored(t *testing.T) {
	t.Parallel()
	broken, err := compress([]byte("broken"))
	if err != nil {
		t.Fatal(err)
	}
	for title, content := range map[string][]byte{"not compressed": []byte("x"), "not understood": broken, "cut off": broken[:8]} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			kube := fake.NewClientset(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, BinaryData: map[string][]byte{"lines": content},
			})
			p := newProcess(t, kube)
			p.learn("a")
			p.start()
			p.pass(period)
			again := newProcess(t, kube)
			again.start()
			if got := again.known(); got != "a" {
				t.Errorf("it knows %q", got)
			}
		})
	}
}

// refuse lets the API server answer some requests with errors, once each.
func refuse(kube *fake.Clientset, verb string, errs ...error) {
	var mu sync.Mutex
	kube.PrependReactor(verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(errs) == 0 {
			return false, nil, nil
		}
		err := errs[0]
		errs = errs[1:]
		return true, nil, err
	})
}

func TestConflictsAreOvercome(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "configmaps"}
	conflict, exists := apierrors.NewConflict(resource, name, errors.New("it has changed")), apierrors.NewAlreadyExists(resource, name)
	kube := fake.NewClientset()
	p := newProcess(t, kube)
	p.start()
	refuse(kube, "create", exists, exists)
	p.learn("a")
	p.pass(period)
	refuse(kube, "update", conflict, conflict, conflict)
	p.learn("b")
	p.pass(period)
	if err := kube.CoreV1().ConfigMaps(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.learn("c")
	p.pass(period)
	again := newProcess(t, kube)
	again.start()
	if got := again.known(); got != "a b c" {
		t.Errorf("it knows %q", got)
	}
}

func TestWhatCouldNotBeReadIsNotWrittenOver(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	first := newProcess(t, kube)
	first.start()
	first.learn("a")
	first.Close(t.Context())
	p := newProcess(t, kube)
	refuse(kube, "get", errors.New("the API server is away"), errors.New("still"))
	p.learn("b")
	p.start()
	p.Close(t.Context())
	p.pass(retryPeriod)
	if got := p.known(); got != "b" {
		t.Errorf("it knows %q", got)
	}
	p.pass(retryPeriod)
	p.pass(period)
	again := newProcess(t, kube)
	again.start()
	if got := again.known(); got != "a b" {
		t.Errorf("it knows %q", got)
	}
}

func TestASectionIsCutToItsSize(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	p := newProcess(t, kube)
	p.start()
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 1000 {
		p.learn(fmt.Sprintf("%d-%x", i, random.Uint64()))
	}
	p.Close(t.Context())
	if size := len(configMap(t, kube).BinaryData["lines"]); size > 1000 || size < 300 {
		t.Errorf("%d bytes", size)
	}
	again := newProcess(t, kube)
	again.start()
	if got, all := again.known(), p.known(); got == "" || !strings.HasSuffix(all, got) {
		t.Errorf("it knows %q, want the last of all lines", got)
	}
}

func TestASectionThatCanNotBeWrittenStays(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	p := newProcess(t, kube)
	other := &learner{}
	p.sections = append(p.sections, other.section("others", 1000))
	p.start()
	p.learn("a")
	other.learn("x")
	p.Close(t.Context())
	kept := string(configMap(t, kube).BinaryData["others"])
	p.sections[1].Encode = func(float64) ([]byte, error) { return nil, errors.New("it is out of order") }
	p.learn("b")
	p.Close(t.Context())
	object := configMap(t, kube)
	if got := string(object.BinaryData["others"]); got != kept {
		t.Errorf("the section is %q, want %q", got, kept)
	}
	again := newProcess(t, kube)
	again.start()
	if got := again.known(); got != "a b" {
		t.Errorf("it knows %q", got)
	}
}
