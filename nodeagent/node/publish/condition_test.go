// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
)

// statusServer plays server-side apply on the one condition of a Node's status.
type statusServer struct {
	uid       types.UID
	condition *corev1.NodeCondition
	reads     int
	writes    int
	fail      error
}

func (s *statusServer) Read(_ context.Context, node string, kind corev1.NodeConditionType) (*corev1.NodeCondition, error) {
	if node != nodeName || kind != "GPUHealthy" {
		return nil, errors.New("this is not the condition")
	}
	s.reads++
	return s.condition, nil
}

func (s *statusServer) Patch(_ context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*metav1.PartialObjectMetadata, error) {
	s.writes++
	if s.fail != nil {
		return nil, s.fail
	}
	if name != nodeName || kind != types.ApplyPatchType || strings.Join(subresources, "/") != "status" || options.FieldManager != ConditionManager {
		return nil, fmt.Errorf("this is not an apply of the status: %s %s %v %+v", name, kind, subresources, options)
	}
	var node corev1.Node
	if err := json.Unmarshal(data, &node); err != nil {
		return nil, err
	}
	if node.UID != s.uid || node.Labels != nil || node.Annotations != nil {
		return nil, fmt.Errorf("the patch has metadata: %s", data)
	}
	s.condition = nil
	if len(node.Status.Conditions) > 0 {
		s.condition = &node.Status.Conditions[0]
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: s.uid, ResourceVersion: "100"}}, nil
}

// conditionFixture is a ConditionWriter between simulated GPUs and a Node's status.
type conditionFixture struct {
	*fixture
	status *statusServer
	writer *ConditionWriter
}

func newConditionFixture(t *testing.T, profile string, expected int) *conditionFixture {
	t.Helper()
	f := &conditionFixture{fixture: newFixture(t, profile), status: &statusServer{uid: "uid-1"}}
	f.config.Patcher = f.status
	f.expecting(expected)
	return f
}

// expecting restarts the agent, which expects a number of GPUs from now on.
func (f *conditionFixture) expecting(gpus int) {
	f.monitor = monitor.New(monitor.Config{Source: f.source, Clock: f.clock, Policy: f.policy(), Deadline: time.Second, ExpectedGPUs: gpus})
	f.config.GPUs = f.monitor
	f.writer = NewConditionWriter(f.config, f.status)
}

// passes lets polls pass, and writes after each.
func (f *conditionFixture) passes(polls int) {
	for range polls {
		f.monitor.Poll(f.Context())
		f.writer.Write(f.Context())
		f.clock.Step(pollEvery)
	}
}

func (f *conditionFixture) expect(writes int, want string) {
	f.Helper()
	got := ""
	if c := f.status.condition; c != nil {
		got = fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
	}
	if diff := cmp.Diff(want, got); diff != "" || f.status.writes != writes {
		f.Fatalf("after %d writes, want %d; condition (-want +got):\n%s", f.status.writes, writes, diff)
	}
}

func TestTheConditionIsWrittenOnlyOnChange(t *testing.T) {
	t.Parallel()
	f := newConditionFixture(t, moving, 8)
	f.passes(200)
	f.expect(1, "True AllHealthy all 8 GPUs are healthy")
	if f.status.reads != 1 {
		t.Errorf("it was read %d times, want once before the write", f.status.reads)
	}
	healthySince := f.status.condition.LastTransitionTime
	uuid := simulation.UUID(nodeName, 3)
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.RecoveryAction, Action: "GPUReset"})
	f.passes(100)
	f.expect(2, "False GPUReset GPU 3 ("+uuid+"): ResetRequired, the driver requires a reset of the GPU")
	brokenSince := f.status.condition.LastTransitionTime
	if !healthySince.Before(&brokenSince) {
		t.Errorf("the transition to False was at %v, that to True at %v", brokenSince, healthySince)
	}
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.RecoveryAction, Action: "NodeReboot"})
	f.passes(100)
	f.expect(3, "False NodeReboot GPU 3 ("+uuid+"): RebootRequired, the driver requires a reboot of the node")
	if at := f.status.condition.LastTransitionTime; !at.Equal(&brokenSince) {
		t.Errorf("the transition was at %v, but the status has not changed since %v", at, brokenSince)
	}
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.Recovered})
	f.passes(1)
	f.expect(4, "False GPUUnhealthy GPU 3 ("+uuid+"): RebootRequired") // until the recovery period has passed
	f.passes(100)
	f.expect(5, "True AllHealthy all 8 GPUs are healthy")
	f.inject(simulation.Fault{GPU: new(7), Fault: simulation.Removed})
	f.passes(100)
	f.expect(6, "False GPUMissing 1 of 8 GPUs is missing")
}

func TestANewAgentKeepsTheCondition(t *testing.T) {
	t.Parallel()
	f := newConditionFixture(t, moving, 0)
	f.passes(1)
	before := *f.status.condition
	f.expecting(0)
	f.writer.Write(t.Context()) // it has not polled yet
	f.passes(100)
	f.expect(1, "True AllHealthy all 8 GPUs are healthy")
	if diff := cmp.Diff(before, *f.status.condition); diff != "" {
		t.Errorf("condition (-before +after):\n%s", diff)
	}
}

func TestTwoAgentsDoNotFightOverTheCondition(t *testing.T) {
	t.Parallel()
	f := newConditionFixture(t, moving, 0)
	second := NewConditionWriter(f.config, f.status)
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.Lost})
	for range 200 {
		f.passes(1)
		second.Write(t.Context())
	}
	f.expect(1, "False GPUUnhealthy GPU 3 ("+simulation.UUID(nodeName, 3)+"): Lost")
}

func TestANodeWithoutGPUsHasNoCondition(t *testing.T) {
	t.Parallel()
	f := newConditionFixture(t, "count: 0", 0)
	f.passes(200)
	f.expect(0, "")
}

func TestTheConditionOfGPUsThatAreTakenOutIsRemoved(t *testing.T) {
	t.Parallel()
	f := newConditionFixture(t, moving, 0)
	f.passes(1)
	f.inject(simulation.Fault{Fault: simulation.Removed})
	f.passes(100)
	f.expect(2, "")
}

// noDriver is a Source without a driver.
type noDriver struct{ gpu.Source }

func (noDriver) Open() (gpu.Inventory, error) { return gpu.Inventory{}, gpu.ErrUnavailable }

func TestWithoutADriverNothingIsKnown(t *testing.T) {
	t.Parallel()
	f := newConditionFixture(t, moving, 0)
	f.passes(1)
	f.monitor = monitor.New(monitor.Config{Source: noDriver{f.source}, Clock: f.clock, Policy: f.policy(), Deadline: time.Second})
	f.config.GPUs = f.monitor
	f.writer = NewConditionWriter(f.config, f.status)
	f.passes(int(driverGracePeriod / pollEvery))
	f.expect(1, "True AllHealthy all 8 GPUs are healthy") // it may be about to start
	f.passes(100)
	f.expect(2, "Unknown NoDriver no GPU driver")
	f.status.condition = nil // nothing says that this node has GPUs
	f.writer = NewConditionWriter(f.config, f.status)
	f.passes(200)
	f.expect(2, "")
}

func TestAGPUThatHasNeverBeenPolledIsUnknownAfterAWhile(t *testing.T) {
	t.Parallel()
	f := newConditionFixture(t, moving, 0)
	f.passes(1)
	f.expecting(0)
	f.clock.Step(driverGracePeriod)
	f.writer.Write(t.Context())
	f.expect(2, "Unknown NotPolled the GPUs have not been polled yet")
}

func TestARecreatedNodeGetsItsCondition(t *testing.T) {
	t.Parallel()
	f := newConditionFixture(t, moving, 0)
	f.passes(1)
	f.status.condition, f.status.uid = nil, "uid-2"
	f.view.See(nil)
	f.passes(1)
	f.expect(1, "")
	f.view.See(&metav1.ObjectMeta{Name: nodeName, UID: "uid-2"})
	f.passes(1)
	f.expect(2, "True AllHealthy all 8 GPUs are healthy")
}

func TestAConditionThatCannotBeWrittenIsTriedMoreAndMoreRarely(t *testing.T) {
	t.Parallel()
	f := newConditionFixture(t, moving, 0)
	f.status.fail = errors.New("overloaded")
	const polls = 720 // an hour
	f.passes(polls)
	if f.status.writes < 5 || f.status.writes > 60 {
		t.Errorf("%d attempts in an hour", f.status.writes)
	}
	f.status.fail = nil
	f.inject(simulation.Fault{GPU: new(7), Fault: simulation.Removed})
	f.passes(4) // what is new is tried within seconds
	f.expect(f.status.writes, "True AllHealthy all 7 GPUs are healthy")
}

func TestCleanUpRemovesTheCondition(t *testing.T) {
	t.Parallel()
	f := newConditionFixture(t, moving, 0)
	f.passes(1)
	for range 2 {
		if err := f.writer.CleanUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.expect(2, "")
}
