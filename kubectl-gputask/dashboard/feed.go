// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/history"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/live"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
)

const (
	// shortestPause is between two looks at the cluster: people don't see changes that are nearer to each other.
	shortestPause = 200 * time.Millisecond
	// pauseFactor is how many times longer a pause is than the look before it, so that a large cluster costs a third of
	// a CPU at most.
	pauseFactor = 2
	// samplePeriod is how often the history is continued at most; each sample takes a look.
	samplePeriod = 15 * time.Second
	// idleFactor is how many times as long as the last look the pause before the next sample is at least, without
	// viewers, so that samples of a large cluster cost a hundredth of a CPU.
	idleFactor = 100
	// liveSamples is how many of the last samples viewers are sent as they come.
	liveSamples = 240
	// retryPeriod is how often to try to see a cluster that can't be seen.
	retryPeriod = 2 * time.Second
)

// feed watches the cluster once for all viewers, and keeps its rows.
type feed struct {
	options  *Options
	document *live.Document
	history  *history.Store
	lives    *lives
	advice   *advice
	health   *health
	load     *load
	// changed has room for one: something has changed since the last look.
	changed chan struct{}

	mu sync.Mutex
	// viewers is how many there are.
	viewers int
	// follower is nil until the cluster has been seen.
	follower *cluster.Follower

	// looked is when the last look ended, and took how long it took. Only run's goroutine uses them.
	looked time.Time
	took   time.Duration

	// thinking is held by who has the engine answer something that may take long.
	thinking sync.Mutex

	// looking protects view, which is not safe for concurrent use, and is that of the last look.
	looking sync.Mutex
	view    *analysis.View
}

func newFeed(options *Options) *feed {
	f := &feed{
		options: options, document: live.NewDocument(), history: history.NewStore(), lives: newLives(),
		advice: &advice{clock: options.Clock, known: map[string]adviceEntry{}}, changed: make(chan struct{}, 1),
	}
	f.health = &health{options: options, changed: f.wake}
	f.load = &load{options: options, changed: f.wake}
	return f
}

// wake has the feed look at the cluster again soon.
func (f *feed) wake() {
	select {
	case f.changed <- struct{}{}:
	default: // it will
	}
}

// enter counts a viewer until the returned function is called.
func (f *feed) enter() (leave func()) {
	f.mu.Lock()
	f.viewers++
	f.mu.Unlock()
	f.wake()
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.viewers--
	}
}

// following returns what watches the cluster; nil if the cluster has not been seen yet.
func (f *feed) following() *cluster.Follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.follower
}

func (f *feed) watched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.viewers > 0
}

// run looks at the cluster whenever it has changed and somebody sees it, and from time to time for the history, until
// ctx ends.
func (f *feed) run(ctx context.Context) error {
	go f.health.run(ctx, f.watched)
	follower, err := f.follow(ctx)
	for apierrors.IsForbidden(err) && f.options.Personal {
		f.showPart(ctx, err)
		follower, err = f.follow(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	f.mu.Lock()
	f.follower = follower
	f.mu.Unlock()
	go f.load.run(ctx, f.watched, follower)
	samples := f.options.Clock.NewTicker(samplePeriod)
	defer samples.Stop()
	f.sample(f.look(ctx))
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-samples.C():
			if f.watched() || isSampleDue(f.options.Clock.Since(f.looked), f.took) {
				f.sample(f.look(ctx))
			}
		case <-f.changed:
			if f.watched() {
				f.look(ctx)
			}
		}
	}
}

// isSampleDue reports whether the history is continued without viewers, given the time since the last look and how long
// that took.
func isSampleDue(since, took time.Duration) bool { return since >= idleFactor*took }

// follow begins to watch the cluster. While the API server does not answer, it tries again.
func (f *feed) follow(ctx context.Context) (*cluster.Follower, error) {
	options := cluster.WatcherOptions{Levels: f.options.Levels, Warn: warn, Changed: f.wake, PodGone: func(pod *corev1.Pod) {
		f.lives.add(pod, metav1.NewTime(f.options.Clock.Now()))
	}}
	for {
		follower, err := cluster.NewFollower(ctx, f.options.Clients, options, f.options.Clock)
		if err == nil || !isUnreachable(err) {
			return follower, err
		}
		f.health.failed(err)
		if err := f.put(rows.Set{rows.Summaries: {"": f.known()}}); err != nil {
			return nil, err
		}
		if err := cluster.Sleep(ctx, f.options.Clock, retryPeriod); err != nil {
			return nil, err
		}
	}
}

// warn returns the handler of the errors of a watch. The page shows that the API server can't be reached, so the log
// need not.
func warn(what string) cache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, _ *cache.Reflector, err error) {
		klog.FromContext(ctx).V(1).Info("Watching was interrupted; trying again", "what", what, "err", err)
	}
}

// look brings the rows up to date, and pauses so that looking does not take all of a CPU.
func (f *feed) look(ctx context.Context) *rows.Moment {
	begin := f.options.Clock.Now()
	set, moment := f.build(begin)
	if err := f.put(set); err != nil {
		klog.FromContext(ctx).Error(err, "The page can't be brought up to date")
	}
	f.looked, f.took = f.options.Clock.Now(), f.options.Clock.Since(begin)
	_ = cluster.Sleep(ctx, f.options.Clock, max(shortestPause, pauseFactor*f.took)) // run sees that ctx has ended
	return moment
}

// build returns the rows of the cluster as it is now.
func (f *feed) build(now time.Time) (rows.Set, *rows.Moment) {
	observed := f.follower.Observe(now)
	queues := observed.Queues.ForAnalysis()
	if queues != nil && queues.Tree != nil {
		queues.Refresh(slices.Concat(observed.Pods, observed.Waiting), observed.Nodes)
	}
	f.looking.Lock()
	defer f.looking.Unlock()
	f.view = analysis.NewView(&observed.Objects, nil)
	f.view.UseQueues(queues, observed.Waiting)
	known := f.known()
	known.Priorities = observed.Priorities.Names()
	if observed.Queues.Unknown != "" {
		known.Hidden = append(known.Hidden, "The queues of Pods are not known: "+observed.Queues.Unknown+".")
	}
	f.advice.begin(f.view)
	return rows.Build(&rows.Input{View: f.view, Queues: queues, Waiting: observed.Waiting, Load: f.load.last(), Known: known, Help: f.advice.of})
}

// known returns what of the summary does not come from the cluster's objects.
func (f *feed) known() rows.Summary {
	summary := rows.Summary{
		Server: f.options.Clients.Config.Host, Context: f.options.Clients.Context, User: f.options.User, Namespace: f.options.Clients.Namespace,
		Connected: true, Levels: []string{}, Models: []analysis.Model{}, WaitingGPUs: "0", Prometheus: f.options.Prometheus != nil, Journal: f.options.Journal != nil,
	}
	if trouble, since := f.health.trouble(); trouble != "" {
		summary.Connected, summary.Trouble, summary.TroubleSince = false, trouble, &metav1.Time{Time: since}
	}
	return summary
}

func (f *feed) put(set rows.Set) error { return f.document.Replace(live.Rows(set)) }

// sample continues the history.
func (f *feed) sample(moment *rows.Moment) {
	f.history.Add(moment)
	recent := map[string]any{}
	for _, sample := range f.history.Last(liveSamples) {
		recent[sample.Time.UTC().Format(time.RFC3339)] = sample
	}
	_ = f.document.Replace(live.Rows{rows.Samples: recent}) // times and numbers can be written
}

// ask calls a function with the view of the last look. Nobody else uses the view meanwhile.
func (f *feed) ask(do func(*analysis.View)) error {
	f.looking.Lock()
	defer f.looking.Unlock()
	if f.view == nil {
		return fmt.Errorf("the cluster has not been read yet: %s", orUnknown(f.health))
	}
	do(f.view)
	return nil
}

func orUnknown(h *health) string {
	if trouble, _ := h.trouble(); trouble != "" {
		return trouble
	}
	return "it is being read for the first time"
}
