// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

// crowd sends requests to a gate and counts what these cost the API server.
type crowd struct {
	*testing.T
	kube  *kubefake.Clientset
	gate  *Tokens
	clock *clocktesting.FakeClock
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{T: t, kube: apiServer("pods"), clock: clocktesting.NewFakeClock(time.Unix(0, 0))}
	c.gate = NewTokens(c.kube, &rest.Config{Host: "https://example.com"}, c.clock)
	return c
}

// reviews returns how many tokens the API server was asked about.
func (c *crowd) reviews() int {
	count := 0
	for _, action := range c.kube.Actions() {
		if action.Matches("create", "tokenreviews") {
			count++
		}
	}
	return count
}

// forge sends requests from an address, each with another forged token, and returns how many were not reviewed.
func (c *crowd) forge(address string, requests int) int {
	c.Helper()
	busy := 0
	for i := range requests {
		_, err := c.gate.Admit(c.Context(), Sender{Address: address, Token: fmt.Sprintf("forged-%s-%d-%d", address, i, c.reviews())})
		var refusal *RefusedError
		var later *BusyError
		switch {
		case errors.As(err, &later):
			busy++
		case !errors.As(err, &refusal):
			c.Fatalf("a forged token: %v", err)
		}
	}
	return busy
}

// admits has the only viewer who may see the page come from an address.
func (c *crowd) admits(address string) {
	c.Helper()
	if _, err := c.gate.Admit(c.Context(), Sender{Address: address, Token: "good"}); err != nil {
		c.Errorf("from %s: %v", address, err)
	}
}

func TestAVerdictHoldsForAFewSeconds(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	for range 100 {
		c.admits("192.0.2.1")
		if _, err := c.gate.Admit(t.Context(), Sender{Token: "poor"}); err == nil {
			t.Fatal("a viewer without rights is admitted")
		}
	}
	if got := c.reviews(); got != 2 {
		t.Errorf("%d reviews of two tokens", got)
	}
	c.clock.Step(verdictFor + time.Nanosecond)
	c.admits("192.0.2.1")
	if got := c.reviews(); got != 3 {
		t.Errorf("%d reviews after the first verdict has expired", got)
	}
}

func TestRequestsWithTheSameTokenShareAReview(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { c.admits("192.0.2.1") })
	}
	all.Wait()
	if got := c.reviews(); got != 1 {
		t.Errorf("%d reviews of one token", got)
	}
}

func TestAFloodOfForgedTokensFromOneClientCostsOthersNothing(t *testing.T) {
	t.Parallel()
	for name, addresses := range map[string][]string{
		"from an IPv4 address":            {"192.0.2.66"},
		"from all addresses of a network": {"2001:db8::1", "2001:db8::2", "2001:db8::ffff:1", "2001:db8::3%eth0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t)
			c.admits(addresses[0]) // who has been admitted from there
			busy := 0
			for i := range 1000 {
				busy += c.forge(addresses[i%len(addresses)], 1)
			}
			if want := 1000 + 1 - burstPerAddress; busy != want || c.reviews() != burstPerAddress {
				t.Errorf("%d requests were not reviewed, want %d; %d reviews", busy, want, c.reviews())
			}
			c.clock.Step(verdictFor + time.Nanosecond)
			c.forge(addresses[0], 100)
			c.admits(addresses[0])
			if busy := c.forge("198.51.100.1", 1); busy != 0 {
				t.Error("a client that has sent nothing before is not served")
			}
		})
	}
}

func TestAFloodFromEverywhereIsReviewedAtABoundedRate(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.admits("192.0.2.1")
	for i := range 200 {
		for j := range 10 {
			c.forge(fmt.Sprintf("198.51.%d.%d", i, j), 1)
		}
	}
	if got := c.reviews(); got != burstOfAll {
		t.Errorf("%d reviews at once, want %d", got, burstOfAll)
	}
	c.clock.Step(time.Second)
	c.forge("203.0.113.1", 1)
	if got := c.reviews(); got != burstOfAll+1 {
		t.Errorf("%d reviews, a second later another one", got)
	}
	c.clock.Step(verdictFor + time.Nanosecond)
	c.admits("192.0.2.1")
}
