// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/informer"
)

// taskChanges writes the changes of tasks, each once: after an interruption the informer
// reports tasks that have not changed.
type taskChanges struct {
	*listing
	table *show.TaskTable
	names []string
	mu    sync.Mutex
	// versions are the resource versions of the tasks as they were written.
	versions map[cache.ObjectName]string
	err      error
	stop     context.CancelFunc
}

// follow writes a list, and then each change until ctx is done.
func (l *listing) follow(ctx context.Context, clients *cluster.Clients, namespace string, args []string, tasks []v1.GPUTask, table *show.TaskTable) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	names, _ := taskNames(args) // the errors were those of the list
	changes := &taskChanges{listing: l, table: table, names: names, versions: map[cache.ObjectName]string{}, stop: stop}
	if l.isText() {
		if err := l.write(table, tasks, true); err != nil {
			return err
		}
	}
	for i := range tasks {
		changes.versions[cache.MetaObjectToName(&tasks[i])] = tasks[i].ResourceVersion
		if !l.isText() {
			if err := l.printObject(l.Out, &tasks[i]); err != nil {
				return err
			}
		}
	}
	if err := changes.run(ctx, clients, namespace); err != nil {
		return err
	}
	return changes.err
}

func (c *taskChanges) run(ctx context.Context, clients *cluster.Clients, namespace string) error {
	watched := cluster.NewInformer(clients.Tasks, clients.Tasks.FalldioV1().GPUTasks(namespace), &v1.GPUTask{}, func(options *metav1.ListOptions) {
		options.LabelSelector = c.selector
		if len(c.names) == 1 {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, c.names[0]).String()
		}
	})
	if err := watched.SetWatchErrorHandlerWithContext(c.warnOf("gputasks")); err != nil {
		return err
	}
	synced, err := informer.OnAnyChange(ctx, watched, c.changed)
	if err != nil {
		return err
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), synced) {
			c.reportVanished(watched.GetStore())
		}
	}()
	watched.RunWithContext(ctx)
	return nil
}

// changed writes a task unless that version was written before.
func (c *taskChanges) changed(task *v1.GPUTask, deleted bool) {
	if len(c.names) > 0 && !slices.Contains(c.names, task.Name) {
		return
	}
	if !deleted && len(c.inPhases([]v1.GPUTask{*task})) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	name := cache.MetaObjectToName(task)
	if version, known := c.versions[name]; !deleted && known && version == task.ResourceVersion {
		return
	}
	c.versions[name] = task.ResourceVersion
	if deleted {
		delete(c.versions, name)
	}
	if !c.isText() {
		if err := c.printObject(c.Out, task); err != nil {
			c.err = err
			c.stop()
		}
		return
	}
	if deleted {
		c.table.WriteDeleted(c.page(), task)
		return
	}
	c.table.Write(c.page(), []v1.GPUTask{*task})
}

// reportVanished writes the tasks that were deleted between the list and the watch.
func (c *taskChanges) reportVanished(store cache.Store) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.versions {
		if _, exists, err := store.GetByKey(name.String()); err == nil && !exists {
			delete(c.versions, name)
			fmt.Fprintf(c.ErrOut, "task %s was deleted\n", name.Name)
		}
	}
}

// warnPeriod is how often an interruption is told that lasts.
const warnPeriod = 30 * time.Second

// warnOf returns what tells the user why a watch is interrupted. The informer tries again,
// several times in the first seconds.
func (s *session) warnOf(what string) cache.WatchErrorHandlerWithContext {
	var last time.Time
	return func(ctx context.Context, _ *cache.Reflector, err error) {
		if now := s.Clock.Now(); ctx.Err() == nil && cluster.IsInterruption(err) && now.Sub(last) >= warnPeriod {
			last = now
			fmt.Fprintf(s.ErrOut, "watching %s: %v; trying again\n", what, err)
		}
	}
}
