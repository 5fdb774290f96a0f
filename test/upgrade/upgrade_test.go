// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	seed     = flag.Uint64("upgrade.seed", 1, "the order in which processes are replaced")
	reversed = flag.Bool("upgrade.reversed", false, "apply the new manifests after the processes have been replaced, and the old ones before: not in the order that docs/installation.md says")
	keep     = flag.Bool("keep", false, "keep the cluster's directory")
)

// TestAnUpgradeAndTheWayBackChangeNothing replaces the processes of the previous version by those of this
// one, in any order, and goes back in another order. A move that one version has begun is ended by the other.
func TestAnUpgradeAndTheWayBackChangeNothing(t *testing.T) {
	next, err := thisVersion()
	if err != nil {
		t.Fatal(err)
	}
	previous, err := previousVersion(t.Context(), next.tree, t.TempDir())
	if errors.Is(err, errNoHistory) && os.Getenv(requiredVariable) == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if lost := lostFields(previous.crds(t), next.crds(t)); len(lost) > 0 {
		t.Errorf("the new CRDs lack what the old ones have: %s", strings.Join(lost, ", "))
	}
	begin := time.Now()
	s := newScene(t, next.program("localcluster"), previous)
	random := rand.New(rand.NewPCG(*seed, 0))
	s.submitWorkload()
	moving := s.startMove(modelUp)
	check := &checks{scene: s, begin: begin, before: s.settle()}
	t.Logf("%v: before: %s", time.Since(begin).Round(time.Second), check.before.describe())

	check.upgrade(random, next)
	s.finishMove(moving)
	check.onlyMoved("the new version, after its predecessor's move", moving)

	moving = s.startMove(modelDown)
	check.before = s.settle()
	check.goBack(random, previous)
	s.finishMove(moving)
	check.onlyMoved("the old version, after its successor's move", moving)
	t.Logf("%v: after: %s", time.Since(begin).Round(time.Second), check.before.describe())
}

// checks compares the cluster with what it was at the last check.
type checks struct {
	*scene
	begin  time.Time
	before state
	stages int
}

// upgrade applies the manifests of a version and then replaces the processes.
func (c *checks) upgrade(random *rand.Rand, v *version) {
	c.Helper()
	steps := []func(){func() { c.apply(v) }, func() { c.replaceAll(random, v) }}
	c.inOrder(steps)
}

// goBack replaces the processes by those of a version, and then applies its manifests.
func (c *checks) goBack(random *rand.Rand, v *version) {
	c.Helper()
	steps := []func(){func() { c.replaceAll(random, v) }, func() { c.apply(v) }}
	c.inOrder(steps)
}

func (c *checks) inOrder(steps []func()) {
	c.Helper()
	if *reversed {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		step()
	}
}

// apply applies the manifests of a version.
func (c *checks) apply(v *version) {
	c.Helper()
	c.install(v)
	c.nothingHasChanged("the " + v.name + " manifests, " + c.versions())
}

// replaceAll replaces all processes by those of a version, in random order.
func (c *checks) replaceAll(random *rand.Rand, v *version) {
	c.Helper()
	for _, i := range random.Perm(len(roles)) {
		c.replace(roles[i], v)
		c.nothingHasChanged(c.versions())
	}
}

// nothingHasChanged checks that new tasks run, and that all others do what they did before.
func (c *checks) nothingHasChanged(what string) {
	c.Helper()
	c.compare(what, nil, nil)
}

// onlyMoved does the same after the end of a move, which has changed its tasks.
func (c *checks) onlyMoved(what string, m *move) {
	c.Helper()
	c.compare(what, m.tasks(), m.plans())
}

// compare leaves out the tasks and plans that are expected to have changed.
func (c *checks) compare(what string, tasks, plans map[string]bool) {
	c.Helper()
	c.Logf("%v: %s", time.Since(c.begin).Round(time.Second), what)
	c.stages++
	c.await(append(c.submitInOrder(newcomers(c.stages)), c.submitInNumbers(c.stages)...)...)
	now := c.record()
	if found := differences(c.before.unconcerned(tasks, plans), now.unconcerned(tasks, plans)); len(found) > 0 {
		c.Fatalf("with %s:\n%s", what, strings.Join(found, "\n"))
	}
	for role, p := range c.running {
		if p.hasEnded() {
			c.Fatalf("with %s: the %s %s has ended: %v", what, p.version.name, role, p.err)
		}
	}
	c.before = now
}
