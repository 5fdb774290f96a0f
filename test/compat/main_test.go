// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"falldio.github.io/gpu-controller/localcluster/names"
	"falldio.github.io/gpu-controller/test/programs"
)

// requiredVariable is the environment variable that makes the tests fail if a release is not built.
const requiredVariable = "COMPAT_REQUIRED"

// release is another release of Kubernetes.
type release struct {
	// minor is its minor version, such as 1.34.
	minor string
	// programs is the folder with its programs.
	programs string
}

// releases returns the releases that there are modules for.
func releases(t *testing.T) []release {
	t.Helper()
	modules, err := filepath.Glob(filepath.Join("kubernetes", "*", "go.mod"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("no modules of other releases: %v", err)
	}
	var all []release
	for _, module := range modules {
		minor := filepath.Base(filepath.Dir(module))
		all = append(all, release{minor: minor, programs: programs.Binary(filepath.Join("compat", minor))})
	}
	return all
}

// built reports whether the programs of a release are built.
func (r *release) built() bool {
	return !slices.ContainsFunc([]string{names.APIServer, names.ControllerManager}, func(name string) bool {
		_, err := os.Stat(filepath.Join(r.programs, name))
		return err != nil
	})
}

// before reports whether a release is older than a minor version.
func (r *release) before(t *testing.T, minor string) bool {
	t.Helper()
	own, err := version.ParseMajorMinor(r.minor)
	if err != nil {
		t.Fatal(err)
	}
	return own.LessThan(version.MustParseMajorMinor(minor))
}

// build builds our programs; it is quick if they are up to date.
func build() error {
	command := exec.Command("make", "build")
	command.Dir = programs.Root()
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("make build: %w\n%s", err, output)
	}
	return nil
}

// TestOtherReleasesOfKubernetes runs one release after the other: each has a cluster of its own.
func TestOtherReleasesOfKubernetes(t *testing.T) {
	all := releases(t)
	if os.Getenv(requiredVariable) == "" && !slices.ContainsFunc(all, func(r release) bool { return r.built() }) {
		t.Skip("no other release of Kubernetes is built in bin/compat: make test-compat builds and requires them")
	}
	if err := build(); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		t.Run(r.minor, func(t *testing.T) {
			switch {
			case r.built():
				r.test(t)
			case os.Getenv(requiredVariable) != "":
				t.Fatalf("Kubernetes %s is not built: hack/build-kubernetes.sh %s does it", r.minor, r.minor)
			default:
				t.Skipf("Kubernetes %s is not built: hack/build-kubernetes.sh %s does it", r.minor, r.minor)
			}
		})
	}
}

// test runs all tests of a release.
func (r *release) test(t *testing.T) {
	t.Helper()
	c := r.start(t)
	t.Run("the cluster runs what was built", c.testVersion)
	t.Run("the manifests are accepted without a warning", c.testManifests)
	t.Run("the manifests of the DRA driver are accepted from 1.36 on", c.testDriverManifests)
	t.Run("the custom resources are as in the manifests", c.testCustomResources)
	t.Run("the admission policies have no expression that the API server warns about", c.testPolicies)
	t.Run("kubectl gputask suspends and resumes a task", c.testSuspend)
	t.Run("kubectl gputask explains a task that waits", c.testExplain)
	t.Run("resource claims are allocated", c.testClaims)
	t.Run("the examples come to their ends", r.testExamples)
	t.Run("tasks run with Kubernetes' own scheduler", r.testStockScheduler)
	t.Run("an agent reads only what is of its node", r.testAuthorization)
	t.Run("no process keeps asking for what the API server does not serve", c.testLogs)
}
