// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// explanationCache keeps the messages of waiting gangs, so that Pods are not updated
// whenever a number in a message changes, and so that equal requests are explained only
// once.
type explanationCache struct {
	period  time.Duration
	entries map[string]cachedMessage
	sweepAt int
}

// cachedMessage is why a gang waits, or in words what preemption does for it.
type cachedMessage struct {
	reason *v1.WaitingReason // never changed
	text   string
	at     time.Time
	// version is that of the cluster that the message describes, and nodes that of its nodes alone.
	version, nodes uint64
	// never is true if there would be no place even if nothing else ran on these nodes, as they are now.
	never bool
}

func newExplanationCache(period time.Duration) *explanationCache {
	return &explanationCache{period: period, entries: map[string]cachedMessage{}, sweepAt: minSweepSize}
}

// minSweepSize is how many messages are kept before stale ones are dropped.
const minSweepSize = 1024

// get returns a message that is not stale yet.
func (e *explanationCache) get(key string, now time.Time) (cachedMessage, bool) {
	known, found := e.entries[key]
	return known, found && now.Sub(known.at) < e.period
}

func (e *explanationCache) put(key string, given cachedMessage) {
	e.entries[key] = given
	if len(e.entries) < e.sweepAt {
		return
	}
	e.sweep(given.at)
	e.sweepAt = max(minSweepSize, 2*len(e.entries))
}

// sweep drops stale messages.
func (e *explanationCache) sweep(now time.Time) {
	maps.DeleteFunc(e.entries, func(_ string, old cachedMessage) bool { return now.Sub(old.at) >= e.period })
}

// diagnose has the engine explain why a gang does not fit.
func (p *Planner) diagnose(attempt *gangs.Attempt, request *gangs.Request) (explanation *placement.Explanation, err error) {
	if request.Required {
		request = request.In(request.Near)
	}
	p.mirror.For(p.finder.requesterOf(attempt), func(cluster *placement.Cluster) { explanation, err = cluster.Explain(&request.Gang) })
	return explanation, err
}

// explain returns why there is no place. If the
// message is a cached one and the cluster has changed since, renew is when the message
// becomes stale; otherwise it is zero. never is false if the nodes have changed since.
//
// A gang keeps its own message until that is stale, even if what is reserved has changed; a gang
// without one gets that of a gang that asks for the same and sees the same cluster.
func (p *Planner) explain(s *search) (given cachedMessage, renew time.Time) {
	needs, now, version := snapshot.PlainDomains(describeNeeds(s.attempt, s.request)), p.clock.Now(), p.mirror.Version()
	own, shared := s.attempt.Group.Key+"\x00"+needs, s.key()
	given, good := p.explanations.get(own, now)
	if !good {
		if given, good = p.explanations.get(shared, now); !good {
			reason := p.explainAgain(s, needs)
			given = cachedMessage{reason: reason, at: now, version: version, nodes: p.mirror.NodesVersion(), never: reason.Never || reason.Reason == v1.WaitsForClosedNodes}
			p.explanations.put(shared, given)
		}
		p.explanations.put(own, given)
	}
	if given.version != version {
		renew = given.at.Add(p.explanations.period)
	}
	given.never = given.never && given.nodes == p.mirror.NodesVersion()
	return given, renew
}

// explainAgain is explain without what was explained before.
func (p *Planner) explainAgain(s *search, needs string) *v1.WaitingReason {
	if s.refused.AtAll() != nil { // what the engine says is beside the point
		return &v1.WaitingReason{Reason: v1.WaitsForExternal, Needs: needs, Nodes: refusedNodes(s.refused), Message: s.refused.String()}
	}
	explanation, err := p.diagnose(s.attempt, withoutRefused(s))
	given := &v1.WaitingReason{Reason: v1.WaitsForUnknown, Needs: needs}
	texts, reserved := []string{"no place was found"}, false
	switch {
	case err != nil:
		texts[0] = err.Error()
	case explanation != nil:
		withoutExcluded(explanation, s.refused)
		reserved = p.withoutReserved(explanation)
		if texts[0] = snapshot.PlainDomains(explanation.Cause()); len(explanation.Refusals) == 0 && s.refused.Any() {
			texts = nil // there are no other nodes
		}
		given.Reason, given.Never, given.Nodes, given.Remedies = causeOf(explanation), explanation.Never, nodesOf(explanation), snapshot.Remedies(explanation)
	}
	if refused := s.refused.String(); refused != "" {
		given.Reason, given.Nodes, texts = v1.WaitsForConstraints, append(refusedNodes(s.refused), given.Nodes...), slices.Insert(texts, 0, refused)
	}
	if reserved && p.line.Booked() {
		texts = append(texts, "GPUs that are free are kept for work whose turn comes first")
	}
	if explanation != nil {
		if note := p.reservedForOthers(s); note != "" {
			given.Reason, texts = v1.WaitsForPlan, append(texts, note)
		}
	}
	given.Message = strings.Join(texts, "; ")
	if text := unoffered(p, s); text != "" {
		given.Reason, given.Never, given.Message, given.Remedies = v1.WaitsForever, true, text, nil
	}
	return given
}

// withoutExcluded removes from an explanation the nodes that it left out because filters refused them, which are
// counted with what the filters say.
func withoutExcluded(explanation *placement.Explanation, refused *filters.Refusals) {
	explanation.Refusals = slices.DeleteFunc(explanation.Refusals, func(r placement.Refusal) bool {
		return r.Reason == placement.Excluded && r.Nodes <= len(refused.Nodes())
	})
}

// withoutReserved removes the remedy that GPUs become free if all of these are free already, and only kept for others.
// It reports whether it did.
func (p *Planner) withoutReserved(explanation *placement.Explanation) (removed bool) {
	awaited := awaitedIn(explanation)
	if len(awaited) == 0 || p.mirror.InUse(awaited) > 0 || p.heldByClaims(awaited) {
		return false
	}
	explanation.Remedies = slices.DeleteFunc(explanation.Remedies, func(r placement.Remedy) bool { return r.Kind == placement.FreeGPUs })
	return true
}

// withoutRefused returns the request of a gang of one role without the nodes that refused it, for an
// explanation: these have room for it, and it is said elsewhere why they refused it.
func withoutRefused(s *search) *gangs.Request {
	refused := s.refused.Nodes()
	if len(refused) == 0 || len(s.request.Roles) > 1 {
		return s.request
	}
	return s.request.Without(refused)
}

// reservedForOthers returns a note if a gang would fit were it not for reservations.
func (p *Planner) reservedForOthers(s *search) string {
	fits := false
	gpus := p.mirror.WithoutReservations(p.finder.requesterOf(s.attempt), func(cluster *placement.Cluster) {
		fits = p.finder.planIn(cluster, s.unrecorded(), s.request) != nil
	})
	switch {
	case !fits:
		return ""
	case gpus == 0:
		return "it would fit, but places are reserved by MovePlans for others"
	case gpus == 1:
		return "it would fit, but 1 GPU is reserved by MovePlans for others"
	default:
		return fmt.Sprintf("it would fit, but %d GPUs are reserved by MovePlans for others", gpus)
	}
}

// keysOf identifies what a gang asks for, and what its Pods look like to filters.
func (p *Planner) keysOf(attempt *gangs.Attempt, request *gangs.Request) filters.Keys {
	blocking := ""
	if requester := p.finder.requesterOf(attempt); requester.Pods != nil {
		// If other reservations block it, or are for it, it sees another cluster.
		blocking = p.mirror.BlockingKey(requester) + "\x00" + strings.Join(slices.Sorted(maps.Keys(p.finder.destinationsOf(attempt, requester))), " ")
	}
	if shadows := p.line.ShadowKey(attempt); shadows != "" {
		blocking += "\x00ahead " + shadows
	}
	return p.filters.KeysOf(request, blocking, p.mirror.Admissions())
}

// describeNeeds returns what a gang needs: "needs at once 8 × 1 GPU of …".
func describeNeeds(attempt *gangs.Attempt, request *gangs.Request) string {
	var each []string
	for i := range request.Roles {
		if role := &request.Roles[i]; role.Min > 0 {
			each = append(each, fmt.Sprintf("%d × %s", role.Min, role.Shape.String()))
		}
	}
	if len(each) == 1 && attempt.Need == 1 {
		return "needs " + request.Roles[0].Shape.String()
	}
	text := "needs at once " + strings.Join(each, " and ")
	if request.Required {
		text += " in one " + attempt.Labels.Level
	}
	return text
}

// awaitedIn returns the GPUs, by node, that an explanation says would have to be free.
func awaitedIn(explanation *placement.Explanation) map[string][]int {
	index := slices.IndexFunc(explanation.Remedies, func(r placement.Remedy) bool { return r.Kind == placement.FreeGPUs })
	if index < 0 {
		return nil
	}
	return explanation.Remedies[index].Free
}

// heldByClaims reports whether resource claims hold any of some GPUs: nobody knows whether they will ever be free.
func (p *Planner) heldByClaims(awaited map[string][]int) (held bool) {
	p.mirror.With(func(*placement.Cluster) {
		for node, cards := range awaited {
			held = held || p.mirror.HeldByClaims(node, cards)
		}
	})
	return held
}
