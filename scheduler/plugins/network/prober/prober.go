// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
	"falldio.github.io/gpu-controller/scheduler/plugins/network/wanted"
)

// Config configures a Prober.
type Config struct {
	Clock clock.Clock
	// Nodes returns the nodes of the cluster.
	Nodes func() ([]*corev1.Node, error)
	// Wanted has the questions to ask.
	Wanted *wanted.List
	// Estimator gets the measurements.
	Estimator *estimate.Estimator
	// Count is called with each result.
	Count func(Result)
	// Port is the agents' port, where no annotation has another URL.
	Port int
	// Period is how often each node is asked each question.
	Period time.Duration
	// Timeout is how long an answer may take, and what a failure counts as.
	Timeout time.Duration
	// Parallelism is how many agents are asked at once.
	Parallelism int
}

// Prober asks all agents the wanted questions, again and again.
type Prober struct {
	config  Config
	client  *client
	backoff *backoff
	// lastAsked is when each question was asked last.
	lastAsked map[estimate.Question]time.Time
}

// New returns a Prober that has asked nothing yet.
func New(config Config) *Prober {
	return &Prober{
		config: config, client: newClient(config.Timeout), backoff: newBackoff(config.Period), lastAsked: map[estimate.Question]time.Time{},
	}
}

// idle is when to check again if nothing is wanted.
const idle = time.Hour

// Run asks until ctx ends. It asks nothing while nothing is wanted.
func (p *Prober) Run(ctx context.Context) {
	for {
		timer := p.config.Clock.NewTimer(p.round(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-p.config.Wanted.Added():
		case <-timer.C():
		}
		timer.Stop()
	}
}

// round asks the question that has waited longest and returns how long to wait for the
// next round: one question at a time, so that a new one does not wait for all others.
func (p *Prober) round(ctx context.Context) time.Duration {
	questions := p.config.Wanted.Questions()
	p.forget(questions)
	p.config.Estimator.Prune()
	if question, due := p.next(questions); due {
		nodes, err := p.config.Nodes()
		if err != nil {
			klog.FromContext(ctx).Error(err, "The nodes can't be listed: nothing is measured")
			return p.config.Period
		}
		p.forgetNodes(nodes)
		p.lastAsked[question] = p.config.Clock.Now()
		p.askAll(ctx, question, nodes)
	}
	return p.untilDue(questions)
}

// forget drops what is known about questions that are no longer asked.
func (p *Prober) forget(questions []estimate.Question) {
	for question := range p.lastAsked {
		if !slices.Contains(questions, question) {
			delete(p.lastAsked, question)
			p.config.Estimator.Forget(question)
		}
	}
}

func (p *Prober) forgetNodes(nodes []*corev1.Node) {
	exists := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		exists[node.Name] = true
	}
	p.backoff.forget(exists)
}

// next returns the question that has waited longest, if its time has come. One
// that was never asked comes before all others.
func (p *Prober) next(questions []estimate.Question) (estimate.Question, bool) {
	if len(questions) == 0 {
		return estimate.Question{}, false
	}
	next := slices.MinFunc(questions, func(a, b estimate.Question) int { return p.lastAsked[a].Compare(p.lastAsked[b]) })
	return next, p.config.Clock.Since(p.lastAsked[next]) >= p.config.Period
}

// untilDue returns how long it takes until a question is due.
func (p *Prober) untilDue(questions []estimate.Question) time.Duration {
	now, rest := p.config.Clock.Now(), idle
	for _, question := range questions {
		rest = min(rest, max(0, p.lastAsked[question].Add(p.config.Period).Sub(now)))
	}
	return rest
}

// askAll asks all nodes a question. Each agent gets one question at a time.
func (p *Prober) askAll(ctx context.Context, question estimate.Question, nodes []*corev1.Node) {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	answers := make([]Answer, len(nodes))
	var group errgroup.Group
	group.SetLimit(p.config.Parallelism)
	for i, node := range nodes {
		if ctx.Err() != nil || !p.backoff.mayAsk(node.Name, p.config.Clock.Now()) {
			continue
		}
		group.Go(func() error {
			answers[i] = p.askOne(ctx, question, node)
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	if ctx.Err() == nil {
		p.logProblems(ctx, question, nodes, answers)
	}
}

func (p *Prober) askOne(ctx context.Context, question estimate.Question, node *corev1.Node) Answer {
	url, err := agentURL(node, p.config.Port)
	var answer Answer
	if err != nil {
		answer = Answer{Result: Invalid, Problem: err}
	} else {
		answer = p.client.get(ctx, probeURL(url, question))
	}
	if ctx.Err() != nil {
		return Answer{} // the process is ending: the agent is not at fault
	}
	p.backoff.record(node.Name, answer.Result != Unreachable, p.config.Clock.Now())
	switch answer.Result {
	case Reached:
		p.config.Estimator.Observe(question, node.Name, min(answer.Duration, p.config.Timeout))
	case Failed:
		p.config.Estimator.Observe(question, node.Name, p.config.Timeout)
	default: // no measurement: the estimate ages
	}
	p.config.Count(answer.Result)
	return answer
}

// logProblems logs why nodes were not measured: that of the first one, as usually all
// have the same problem.
func (p *Prober) logProblems(ctx context.Context, question estimate.Question, nodes []*corev1.Node, answers []Answer) {
	measured := 0
	first := -1
	for i := range answers {
		switch {
		case answers[i].Result == Reached || answers[i].Result == Failed:
			measured++
		case first < 0 && answers[i].Problem != nil:
			first = i
		}
	}
	logger := klog.FromContext(ctx).V(2)
	if first < 0 || !logger.Enabled() {
		return
	}
	logger.Info("Some nodes did not report how fast they reach a target", "target", question.Target, "module", question.Module,
		"measured", measured, "nodes", len(nodes), "first", nodes[first].Name, "problem", answers[first].Problem.Error())
}
