// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
	"falldio.github.io/gpu-controller/scheduler/plugins/network/wanted"
)

const (
	period = 30 * time.Second
	target = "https://x"
)

// cluster is some nodes, whose agents a test may change, and a Prober.
type cluster struct {
	*Prober
	t         *testing.T
	clock     *clocktesting.FakeClock
	wanted    *wanted.List
	estimator *estimate.Estimator

	mu     sync.Mutex
	nodes  []*corev1.Node
	err    error
	agents map[string]http.HandlerFunc
	asked  []string
	counts map[Result]int
}

func newCluster(t *testing.T, nodes ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)), agents: map[string]http.HandlerFunc{}, counts: map[Result]int{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	for _, name := range nodes {
		c.nodes = append(c.nodes, newNode(name, "", server.URL+"/probe?node="+name))
		c.agents[name] = respond(http.StatusOK, metricsOf("1", "0.1"))
	}
	c.wanted = wanted.New(wanted.Config{Clock: c.clock, Max: 10, Remember: 10 * time.Minute})
	c.estimator = estimate.New(estimate.Config{Clock: c.clock, HalfLife: time.Minute, Expiry: 5 * time.Minute})
	c.Prober = New(Config{
		Clock: c.clock, Wanted: c.wanted, Estimator: c.estimator, Port: port, Period: period, Timeout: timeout, Parallelism: 4,
		Nodes: func() ([]*corev1.Node, error) { return c.nodes, c.err },
		Count: func(result Result) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.counts[result]++
		},
	})
	return c
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	c.mu.Lock()
	c.asked = append(c.asked, query.Get("node")+" "+query.Get("target"))
	agent := c.agents[query.Get("node")]
	c.mu.Unlock()
	agent(w, r)
}

// ask runs a round and expects which nodes were asked what.
func (c *cluster) ask(want ...string) time.Duration {
	c.t.Helper()
	c.asked = nil
	rest := c.round(c.t.Context())
	slices.Sort(c.asked)
	if diff := cmp.Diff(want, c.asked); diff != "" {
		c.t.Errorf("asked (-want +got):\n%s", diff)
	}
	return rest
}

// expect expects what is known about a target, node by node; "?" is nothing.
func (c *cluster) expect(target, want string) {
	c.t.Helper()
	var names, got []string
	for _, node := range c.nodes {
		names = append(names, node.Name)
	}
	for _, one := range c.estimator.Estimates(estimate.Question{Target: target, Module: "m"}, names) {
		text := "?"
		if one.Known {
			text = one.Duration.String()
		}
		got = append(got, text)
	}
	if strings.Join(got, " ") != want {
		c.t.Errorf("%s: got %s, want %s", target, strings.Join(got, " "), want)
	}
}

func (c *cluster) want(targets ...string) {
	for _, one := range targets {
		c.wanted.Asked("default", estimate.Question{Target: one, Module: "m"})
	}
}

func TestNothingIsAskedUntilAPodAsks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1")
	if rest := c.ask(); rest != idle {
		t.Errorf("the next round comes after %v", rest)
	}
}

func TestAllNodesAreAsked(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8")
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	maps.Copy(c.agents, map[string]http.HandlerFunc{
		"n2": respond(http.StatusOK, metricsOf("1", "0.2")),
		"n3": respond(http.StatusOK, metricsOf("0", "0.01")),
		"n4": hang,
		"n5": respond(http.StatusForbidden, "not allowed"),
		"n6": respond(http.StatusTooManyRequests, "busy"),
		"n7": respond(http.StatusOK, "nonsense"),
		"n8": respond(http.StatusOK, metricsOf("1", "1e9")),
	})
	c.want(target)
	rest := c.ask("n1 "+target, "n2 "+target, "n3 "+target, "n4 "+target, "n5 "+target, "n6 "+target, "n7 "+target, "n8 "+target)
	if rest != period {
		t.Errorf("the next round comes after %v", rest)
	}
	// n3 does not reach the target, which counts as the timeout, and so does any longer
	// time that an agent reports. The others are unknown.
	c.expect(target, "100ms 200ms 300ms ? ? ? ? 300ms")
	if diff := cmp.Diff(map[Result]int{Reached: 3, Failed: 1, Unreachable: 1, Refused: 1, Busy: 1, Invalid: 1}, c.counts); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

func TestRoundsComeByThePeriod(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1")
	c.want("a")
	c.ask("n1 a")
	c.clock.Step(period - time.Second)
	if rest := c.ask(); rest != time.Second {
		t.Errorf("the next round comes after %v", rest)
	}
	c.clock.Step(time.Second)
	c.want("b")
	if rest := c.ask("n1 b"); rest != 0 {
		t.Errorf("the new target comes first, the old one after %v", rest)
	}
	if rest := c.ask("n1 a"); rest != period {
		t.Errorf("the next round comes after %v", rest)
	}
	c.clock.Step(time.Hour)
	if rest := c.ask(); rest != idle || len(c.lastAsked) > 0 {
		t.Errorf("nothing is wanted any more, the next round comes after %v", rest)
	}
	c.expect("a", "?")
}

func TestAgentsThatDoNotAnswerAreLeftAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1", "n2")
	c.agents["n2"] = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	c.want("a")
	var pattern strings.Builder
	for range 20 {
		c.wanted.Pending("default", "pod", estimate.Question{Target: "a", Module: "m"})
		c.asked = nil
		c.round(t.Context())
		slices.Sort(c.asked)
		pattern.WriteString(strconv.Itoa(len(slices.Compact(c.asked)))) // net/http tries again
		c.clock.Step(period)
	}
	// 1, 2, 4, 8 periods after it was asked last.
	if want := "22121112111111121111"; pattern.String() != want {
		t.Errorf("asked %s nodes, want %s", pattern.String(), want)
	}
	c.agents["n2"] = c.agents["n1"]
	for range maxBackoff {
		c.round(t.Context())
		c.clock.Step(period)
	}
	c.expect("a", "100ms 100ms")
	c.nodes = c.nodes[:1]
	c.agents["n1"] = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	c.round(t.Context())
	c.nodes = nil
	c.clock.Step(period)
	c.round(t.Context())
	if len(c.backoff.failures) > 0 {
		t.Errorf("nodes that are gone are remembered: %v", c.backoff.failures)
	}
}

func TestNodesThatCantBeListedAreTriedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1")
	c.err = errors.New("not yet")
	c.want("a")
	if rest := c.ask(); rest != period {
		t.Errorf("the next round comes after %v", rest)
	}
	c.err = nil
	c.ask("n1 a")
}

func TestNodesWithoutAnAgentAreUnknown(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1")
	c.nodes = append(c.nodes, newNode("n2", "", ""), newNode("n3", "", "file:///probe"))
	c.want("a")
	c.ask("n1 a")
	c.expect("a", "100ms ? ?")
	if c.counts[Invalid] != 2 {
		t.Errorf("counted %v", c.counts)
	}
}

func TestRunEndsAndWakesUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		c.Run(ctx)
		close(done)
	}()
	c.want("a")
	for {
		if count, _ := c.estimator.Ages(); count == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
}
