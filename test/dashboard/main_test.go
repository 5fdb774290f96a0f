// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/test/cluster"
	"falldio.github.io/gpu-controller/test/programs"
)

// updateScreenshots has the tests write the screenshots of docs/dashboard.md instead of comparing with them.
var updateScreenshots = flag.Bool("update", false, "write the screenshots of docs/dashboard.md")

// raceProgram is kubectl-gputask with the race detector.
const raceProgram = "kubectl-gputask-race"

// shared is the cluster that all tests use. TestMain sets it before any test runs.
var shared *testCluster

// testCluster is a local cluster with gpu-controller and gpu-scheduler, and clients that have all rights.
type testCluster struct {
	*cluster.Cluster
	config *rest.Config
	kube   kubernetes.Interface
	tasks  clientset.Interface
	// journal is the address of the scheduler's journal.
	journal string
	// plan is the name of the plan that waits for approval.
	plan string
	// chromium is the browser's program, and axe the text of axe-core.
	chromium, axe string
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	chromium, missing := findBrowser()
	if missing != nil {
		if os.Getenv("BROWSER_REQUIRED") != "" {
			return fail(missing)
		}
		fmt.Fprintf(os.Stderr, "dashboard: all tests are skipped: %v\n", missing)
		return 0
	}
	dir, err := os.MkdirTemp("", "gpu-controller-dashboard-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	if err := build(); err != nil {
		return fail(err)
	}
	shared, err = start(filepath.Join(dir, "cluster"))
	if err != nil {
		return fail(err)
	}
	shared.chromium = chromium
	shared.axe, err = readAxe()
	if err == nil {
		err = shared.makeScene(context.Background())
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if err := errors.Join(err, shared.Stop()); err != nil {
		code = fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "dashboard:", err)
	return 1
}

// findBrowser returns the path of Chromium.
func findBrowser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no program chromium: apt-get install chromium")
}

// build builds the programs under test; it is quick if they are up to date.
func build() error {
	return programs.Build(programs.Ours(), programs.WithRace(raceProgram, "./kubectl-gputask"))
}

// readAxe returns the text of axe-core, which is one of the page's development dependencies.
func readAxe() (string, error) {
	web := filepath.Join("kubectl-gputask", "dashboard", "web")
	path := filepath.Join(programs.Root(), web, "node_modules", "axe-core", "axe.min.js")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if _, missing := exec.LookPath("npm"); missing != nil && os.Getenv("BROWSER_REQUIRED") == "" {
			fmt.Fprintln(os.Stderr, "dashboard: the page's accessibility is not checked: there is no program npm to install axe-core with")
			return "", nil
		}
		if err := programs.Build(programs.Command{Args: []string{"npm", "--prefix", web, "ci", "--ignore-scripts", "--no-audit", "--no-fund"}}); err != nil {
			return "", err
		}
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

// start starts a cluster of three kinds of nodes.
func start(dir string) (*testCluster, error) {
	running, err := cluster.Start(context.Background(), programs.Binary("localcluster"), dir, os.Stderr,
		"--controller="+programs.Binary("gpu-controller"), "--dashboard="+programs.Binary("kubectl-gputask"), "--controller-arg=--reschedule-approve-cost=0", "--pod-duration=1h",
		"--nodes=name=h100,model=h100-80gb-hbm3,count=8,gpus=8,gpu-memory=81559Mi,pool=training,nodes-per-leaf=4",
		"--nodes=name=a100,model=a100-40gb,count=4,gpus=4,gpu-memory=40960Mi,pool=research",
		"--nodes=name=rtx4090,model=rtx4090,count=4,gpus=2,gpu-memory=24564Mi,pool=research",
		"--nodes=name=t4,model=t4,count=2,gpus=8,gpu-memory=16Gi,pool=tests")
	if err != nil {
		return nil, err
	}
	c := &testCluster{Cluster: running}
	if err := errors.Join(c.connect(), c.findJournal()); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

var journalPort = regexp.MustCompile(`journal:\n(?: +\w+: .*\n)*? +port: (\d+)`)

// findJournal finds out where gpu-scheduler serves its journal, which localcluster has it keep because it serves a page
// itself.
func (c *testCluster) findJournal() error {
	config, err := os.ReadFile(filepath.Join(c.Dir, "scheduler.yaml"))
	if err != nil {
		return err
	}
	match := journalPort.FindSubmatch(config)
	if match == nil {
		return errors.New("the configuration of gpu-scheduler has no journal")
	}
	c.journal = "https://127.0.0.1:" + string(match[1]) + "/debug/gputask/journal"
	return nil
}

func (c *testCluster) connect() (err error) {
	if c.config, err = c.Config(); err != nil {
		return err
	}
	if c.kube, err = kubernetes.NewForConfig(c.config); err != nil {
		return err
	}
	c.tasks, err = clientset.NewForConfig(c.config)
	return err
}
