// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
)

const (
	nodeName  = "node-1"
	pollEvery = 5 * time.Second
	interval  = time.Minute
)

// apiServer plays server-side apply on one Node.
type apiServer struct {
	node    metav1.PartialObjectMetadata
	applied map[string]string // labels that the agent owns
	writes  int
	fail    error
}

func (s *apiServer) Patch(_ context.Context, name string, kind types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*metav1.PartialObjectMetadata, error) {
	s.writes++
	var patch metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	if s.fail != nil {
		return nil, s.fail
	}
	if name != s.node.Name || kind != types.ApplyPatchType || patch.UID != s.node.UID {
		return nil, errors.New("this is not the Node")
	}
	node := s.node.DeepCopy()
	for label := range s.applied {
		delete(node.Labels, label)
	}
	maps.Copy(node.Labels, patch.Labels)
	node.Annotations = patch.Annotations
	s.applied = patch.Labels
	version, err := strconv.Atoi(node.ResourceVersion)
	if err != nil {
		return nil, err
	}
	node.ResourceVersion = strconv.Itoa(version + 1)
	s.node = *node
	return node.DeepCopy(), nil
}

// fixture is a Publisher between simulated GPUs and an API server.
type fixture struct {
	*testing.T
	clock     *clocktesting.FakeClock
	source    *simulation.Source
	monitor   *monitor.Monitor
	api       *apiServer
	view      *View
	publisher *Publisher
	config    Config
}

func newFixture(t *testing.T, profile string) *fixture {
	t.Helper()
	parsed, err := simulation.ParseProfile([]byte(profile))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)), view: NewView()}
	f.source = simulation.New(parsed, nodeName, f.clock)
	f.monitor = monitor.New(monitor.Config{Source: f.source, Clock: f.clock, Policy: f.policy(), Deadline: time.Second})
	f.api = &apiServer{node: metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: nodeName, UID: "uid-1", ResourceVersion: "100", Labels: map[string]string{"kubernetes.io/os": "linux"},
	}}}
	f.config = Config{
		Node: nodeName, GPUs: f.monitor, Nodes: f.view, Patcher: f.api, Clock: f.clock, Labels: labels.Options{}, Interval: interval,
	}
	f.publisher = New(f.config)
	f.watch()
	return f
}

func (f *fixture) policy() health.Policy {
	policy := health.DefaultPolicy()
	policy.RecoveryPeriod = time.Minute
	return policy
}

// watch shows the Node to the agent.
func (f *fixture) watch() { f.view.See(&f.api.node.DeepCopy().ObjectMeta) }

// edit changes the Node as another client.
func (f *fixture) edit(change func(*metav1.PartialObjectMetadata)) {
	f.Helper()
	version, err := strconv.Atoi(f.api.node.ResourceVersion)
	if err != nil {
		f.Fatal(err)
	}
	f.api.node.ResourceVersion = strconv.Itoa(version + 1)
	change(&f.api.node)
	f.watch()
}

// polls lets some polls pass, and publishes after each.
func (f *fixture) polls(count int) {
	for range count {
		f.monitor.Poll(f.Context())
		f.publisher.Publish(f.Context())
		f.clock.Step(pollEvery)
	}
}

// limit is how long a test waits for what takes milliseconds.
const limit = 20 * time.Second

func (f *fixture) withTimeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(f.Context(), limit)
}

func (f *fixture) inject(fault simulation.Fault) {
	f.Helper()
	if err := f.source.Inject(fault); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) expectWrites(want int) {
	f.Helper()
	if f.api.writes != want {
		f.Fatalf("there were %d writes, want %d; the Node has %v", f.api.writes, want, f.api.node.Labels)
	}
}

func (f *fixture) expectLabel(name, want string) {
	f.Helper()
	if got := f.api.node.Labels[name]; got != want {
		f.Fatalf("label %s is %q, want %q", name, got, want)
	}
}

var _ GPUs = (*monitor.Monitor)(nil)

var _ gpu.Source = (*simulation.Source)(nil)
