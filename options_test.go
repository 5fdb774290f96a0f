// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
)

// A Deployment with the flags of the version before must not fail.
func TestFlagsThatHaveNoEffectAnyMoreAreIgnoredWithAWarning(t *testing.T) {
	t.Parallel()
	opts := newOptions()
	flags := opts.flags()
	var warnings strings.Builder
	flags.SetOutput(&warnings)
	args := []string{"--reschedule-min-gain=2", "--reschedule-move-cost=1", "--reschedule-plan-history=2h"}
	if err := errors.Join(flags.Parse(args), opts.validate(flags.Args())); err != nil {
		t.Error(err)
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if !strings.Contains(warnings.String(), "Flag "+name+" has been deprecated, it has no effect") {
			t.Errorf("there is no warning about %s: %s", name, warnings.String())
		}
	}
}

func TestFlagsThatMakeNoSenseAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ args, want string }{
		{"--workers=0", "--workers=0: must be at least 1"},
		{"--kube-api-qps=0", "--kube-api-qps=0: must be greater than 0"},
		{"--kube-api-burst=-1", "--kube-api-burst=-1: must be at least 1"},
		{"--reschedule-period=-5s", "--reschedule-period=-5s: must not be negative"},
		{"--reschedule-mode=shuffle", "--reschedule-mode=shuffle: must be consolidate or recreate"},
		{"--reschedule-patience=-1s", "--reschedule-patience=-1s: must not be negative"},
		{"--reschedule-threshold=50", "--reschedule-threshold=50: must be from 0 to 1"},
		{"--reschedule-approve-cost=-1", "--reschedule-approve-cost=-1: must not be negative"},
		{"--reschedule-max-moves=-1", "--reschedule-max-moves=-1: must not be negative; 0 is no limit"},
		{"--reschedule-moves-per-hour=-1", "--reschedule-moves-per-hour=-1: must not be negative; 0 is no limit"},
		{"--reschedule-gpu-minutes-per-hour=-1", "--reschedule-gpu-minutes-per-hour=-1: must not be negative; 0 is no limit"},
		{"--reschedule-cooldown=-1s", "--reschedule-cooldown=-1s: must not be negative"},
		{"--reschedule-backoff=-1s", "--reschedule-backoff=-1s: must not be negative"},
		{"--reschedule-move-timeout=0s", "--reschedule-move-timeout=0s: must be greater than 0"},
		{"--kueue-gpu-fit-patience=-1s", "--kueue-gpu-fit-patience=-1s: must not be negative"},
		{"--kueue-gpu-fit-retry=500ms", "--kueue-gpu-fit-retry=500ms: must be at least 1s"},
		{"--kueue-gpu-fit --namespace=a", "--kueue-gpu-fit: the check is about the Workloads of all namespaces: leave out --namespace=a"},
		{"--default-image=", "--default-image: must not be empty"},
		{"--usage-period=1ms", "--usage-period=1ms: must be 0, or from 1s to 1h"},
		{"--usage-labels=a,b,c,d,e,f,g,h,i", "--usage-labels: 9 labels, at most 8 are possible"},
		{"--usage-labels=my..team!", "--usage-labels=my..team!: must be the name of a label"},
		{"--taint-unhealthy-gpus=noexecute", "--taint-unhealthy-gpus=noexecute: must be PreferNoSchedule, NoSchedule or NoExecute; leave it out to taint no node"},
		{"--taint-unhealthy-gpus-when=Healthy", "--taint-unhealthy-gpus-when=Healthy: must be Unhealthy or Degraded"},
		{"--taint-unhealthy-gpus-max=0%", "--taint-unhealthy-gpus-max=0%: must be a number of nodes from 1, or a percentage from 1% to 100%"},
		{"--taint-unhealthy-gpus=NoSchedule --namespace=a", "--taint-unhealthy-gpus=NoSchedule: Nodes belong to no namespace: leave out --namespace=a"},
		{"--retry-backoff=0s", "--retry-backoff=0s: must be greater than 0"},
		{"--max-retry-backoff=1s", "--max-retry-backoff=1s: must not be less than --retry-backoff=10s"},
		{"--default-start-timeout-seconds=-1", "--default-start-timeout-seconds=-1: must not be negative"},
		{"--default-unreachable-node-timeout-seconds=-1", "--default-unreachable-node-timeout-seconds=-1: must not be negative"},
		{"--default-ttl-seconds-after-finished=-2", "--default-ttl-seconds-after-finished=-2: must not be negative, except -1 for never"},
		{"up", `unexpected arguments ["up"]`},
	} {
		opts := newOptions()
		flags := opts.flags()
		if err := flags.Parse(strings.Fields(tc.args)); err != nil {
			t.Errorf("%s: %v", tc.args, err)
			continue
		}
		if err := opts.validate(flags.Args()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want %q in it", tc.args, err, tc.want)
		}
	}
	if err := newOptions().validate(nil); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

func TestTopologyLevelsThatCannotBeReadAreRefusedByName(t *testing.T) {
	t.Parallel()
	opts := newOptions()
	err := opts.flags().Parse([]string{"--topology-levels=leaf"})
	if err == nil || !strings.Contains(err.Error(), `"--topology-levels" flag: "leaf": must be a level's name and a label of nodes`) {
		t.Errorf("got error %v", err)
	}
	if err := opts.flags().Parse([]string{"--topology-levels=rack=example.com/rack"}); err != nil {
		t.Fatal(err)
	}
	if got := opts.rescheduling.Levels.String(); got != "rack=example.com/rack" {
		t.Errorf("levels %s", got)
	}
}

func TestAControllerOfOneNamespaceHasALeaseOfItsOwn(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                                  "gpu-controller",
		"--namespace=team-a":                "gpu-controller-team-a",
		"--namespace=team-b":                "gpu-controller-team-b",
		"--leader-elect-resource-name=mine": "mine",
		"--namespace=team-a --leader-elect-resource-name=mine": "mine",
	} {
		opts := newOptions()
		if err := opts.flags().Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if got := opts.election().ResourceName; got != want {
			t.Errorf("%q: the lease is %s, want %s", args, got, want)
		}
	}
}

func TestTheDefaultTTLIsOffUnlessItIsSet(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]*int32{
		"": nil,
		"--default-ttl-seconds-after-finished=-1":   nil,
		"--default-ttl-seconds-after-finished=0":    ptr.To[int32](0),
		"--default-ttl-seconds-after-finished=3600": ptr.To[int32](3600),
	} {
		opts := newOptions()
		if err := opts.flags().Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if got := opts.taskConfig().TTLSecondsAfterFinished; !ptr.Equal(got, want) {
			t.Errorf("%q: %v, want %v", args, got, want)
		}
	}
}

func TestUnreachableNodesAreNotLeftUnlessAFlagSaysSo(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]*int32{
		"": nil,
		"--default-unreachable-node-timeout-seconds=0":   nil,
		"--default-unreachable-node-timeout-seconds=300": ptr.To[int32](300),
	} {
		opts := newOptions()
		if err := opts.flags().Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if got := opts.taskConfig().UnreachableNodeTimeoutSeconds; !ptr.Equal(got, want) {
			t.Errorf("%q: %v, want %v", args, got, want)
		}
	}
}
