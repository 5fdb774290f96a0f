// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/verdict"
	"falldio.github.io/gpu-controller/test/programs"
)

const (
	// limit is how long everybody may take to say the same. Why a gang waits is written ten seconds after the first
	// attempt, and at most every ten seconds.
	limit     = 2 * time.Minute
	pollEvery = 500 * time.Millisecond
	// fewestPolls is how often everybody is asked at least, also if the limit has passed for others.
	fewestPolls = 3
	// settled is after what time golden files are written.
	settled = 30 * time.Second
)

// TestEverybodySaysTheSame makes all causes, in a namespace each, and compares what everybody says about them.
func TestEverybodySaysTheSame(t *testing.T) {
	shared.fill(t)
	all := causes()
	for name, one := range all {
		shared.prepare(t, name, &one)
	}
	for name, one := range all { // by now what was prepared is in force
		shared.apply(t, name, task("task", one.spec))
	}
	made := time.Now()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { check(t, name, all[name].want, made) })
	}
}

// check waits until everybody says the same about the task of a cause, and what the golden file says. All causes were
// made at a time: what is said about the first of them was awaited for all.
func check(t *testing.T, name string, want v1.TaskReason, made time.Time) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	golden, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatalf("%v (run the test with -update to write it)", err)
	}
	said, text, problem := surfaces{}, "", ""
	for polls, before := 0, ""; ; time.Sleep(pollEvery) {
		polls++
		said = gather(t, name)
		before, text = text, said.String()
		problem = said.disagreement(want)
		switch {
		case *update && problem == "" && text == before && time.Since(made) > settled:
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		case !*update && problem == "" && text == string(golden):
			return
		case time.Since(made) > limit && polls > fewestPolls:
			t.Fatalf("%s\n%s (-want +got):\n%s\n%s", problem, path, cmp.Diff(string(golden), text), text)
		}
	}
}

// surfaces are what everybody says about one task.
type surfaces struct {
	reason, message     string
	explained           explanation
	queued              *entry
	listed, explainText string
}

// explanation and entry are what the commands write as JSON, as far as it is compared.
type explanation struct {
	Verdict        verdict.Verdict   `json:"verdict"`
	EstimatedStart *v1.StartEstimate `json:"estimatedStart"`
	Position       int               `json:"position"`
	Ahead          []string          `json:"ahead"`
}

type entry struct {
	Name           string            `json:"name"`
	Namespace      string            `json:"namespace"`
	Verdict        verdict.Verdict   `json:"verdict"`
	Reason         string            `json:"reason"`
	EstimatedStart *v1.StartEstimate `json:"estimatedStart"`
	Position       int               `json:"position"`
}

func gather(t *testing.T, namespace string) (said surfaces) {
	t.Helper()
	found, err := shared.tasks.FalldioV1().GPUTasks(namespace).Get(t.Context(), "task", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	said.message = found.Status.Message
	if reconciling := meta.FindStatusCondition(found.Status.Conditions, v1.ConditionReconciling); reconciling != nil {
		said.reason = reconciling.Reason
	}
	read(t, &said.explained, "explain", "task", "--namespace="+namespace, "--output=json")
	said.explainText = gputask(t, "explain", "task", "--namespace="+namespace)
	said.listed = gputask(t, "list", "task", "--namespace="+namespace, "--no-headers")
	var line struct {
		Waiting []entry `json:"waiting"`
	}
	read(t, &line, "queue", "--namespace="+namespace, "--output=json")
	for i := range line.Waiting {
		if one := &line.Waiting[i]; one.Namespace == namespace && one.Name == "task" {
			said.queued = one
		}
	}
	return said
}

// disagreement returns in what not everybody says the same; empty if they do.
func (s *surfaces) disagreement(want v1.TaskReason) string {
	explained := &s.explained.Verdict
	switch {
	case s.reason != string(want):
		return fmt.Sprintf("the condition Reconciling has the reason %q, want %q", s.reason, want)
	case explained.Kind != want:
		return fmt.Sprintf("explain says %s, want %s", explained.Kind, want)
	case !strings.Contains(s.message, explained.Cause):
		return fmt.Sprintf("the message %q does not have the cause %q", s.message, explained.Cause)
	case want != v1.TaskQueued && s.explained.EstimatedStart != nil:
		return "explain has an estimate"
	case s.explained.Position != 0 && s.explained.Position != len(s.explained.Ahead)+1:
		return fmt.Sprintf("explain says position %d behind %v", s.explained.Position, s.explained.Ahead)
	case s.queued != nil:
		return s.queued.disagreement(want, explained.Cause)
	default:
		return ""
	}
}

// disagreement returns in what a waiting entry says something else; empty if it does not.
func (e *entry) disagreement(want v1.TaskReason, cause string) string {
	served := want == v1.TaskQueued || want == v1.TaskStarting
	switch {
	case e.Verdict.Kind != want:
		return fmt.Sprintf("queue says %s, want %s", e.Verdict.Kind, want)
	case !strings.Contains(e.Reason, cause):
		return fmt.Sprintf("queue says %q, want %q", e.Reason, cause)
	case !served && (e.EstimatedStart != nil || e.Position != 0):
		return "queue has a position or an estimate"
	default:
		return ""
	}
}

// String returns what is compared with the golden file: without times, ages and positions.
func (s *surfaces) String() string {
	text := fmt.Sprintf("reason: %s\nmessage: %s\n", s.reason, s.message)
	if s.queued != nil {
		text += "queue: " + s.queued.Reason + "\n"
	}
	explained, _, _ := strings.Cut(s.explainText, "\nWarnings about") // as many as there happened to be
	return withoutTimes(text + "list: " + s.listed + "explain: " + explained)
}

var (
	aTime = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z| UTC)?|\b\d\d:\d\d(:\d\d)?( UTC)?`)
	anAge = regexp.MustCompile(`\b(\d+[hms])+\b`)
	aGap  = regexp.MustCompile(`(\S)  +`)
	// others are lines that the other causes change.
	others    = regexp.MustCompile(`(?m)^(Free|Position|Expected): .*\n`)
	aPosition = regexp.MustCompile(`; \d+(st|nd|rd|th) in (line|queue \S+?)(;.*)?\n`)
)

func withoutTimes(text string) string {
	text = aPosition.ReplaceAllString(text, "\n")
	text = aTime.ReplaceAllString(text, "TIME")
	text = aGap.ReplaceAllString(anAge.ReplaceAllString(text, "AGE"), "$1  ")
	return others.ReplaceAllString(text, "")
}

// fill has a task hold all GPUs of the nodes that are to be full.
func (c *testCluster) fill(t *testing.T) {
	t.Helper()
	c.apply(t, "default", task("holder", "gpu: h100-80gb-hbm3\ngpu-amount: \"8\"\nreplicas: 2\ntemplate: {metadata: {annotations: {simulation.falldio.com/duration: forever}}}\n"))
	deadline := time.Now().Add(limit)
	for {
		found, err := c.tasks.FalldioV1().GPUTasks("default").Get(t.Context(), "holder", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if found.Status.Phase == v1.PhaseRunning {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the nodes are not full: %s", found.Status.Message)
		}
		time.Sleep(pollEvery)
	}
}

// prepare makes all of a cause but its task.
func (c *testCluster) prepare(t *testing.T, name string, one *cause) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: one.labels}}
	if _, err := c.kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.apply(t, name, one.objects)
}

func (c *testCluster) apply(t *testing.T, namespace, manifest string) {
	t.Helper()
	if strings.TrimSpace(manifest) != "" {
		c.mustKubectl(t, strings.ReplaceAll(manifest, "NAMESPACE", namespace), "apply", "--namespace="+namespace, "--filename=-")
	}
}

func (c *testCluster) mustKubectl(t *testing.T, input string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), programs.Binary("localcluster"), append([]string{"kubectl"}, args...)...)
	command.Env, command.Stdin = append(os.Environ(), "LOCALCLUSTER_DIR="+c.Dir), strings.NewReader(input)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %s: %v\n%s\n%s", strings.Join(args, " "), err, out, input)
	}
}

func gputask(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), programs.Binary("kubectl-gputask"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig())
	out, err := command.Output()
	if err != nil {
		t.Fatalf("kubectl gputask %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

func read(t *testing.T, into any, args ...string) {
	t.Helper()
	if err := json.Unmarshal([]byte(gputask(t, args...)), into); err != nil {
		t.Fatalf("kubectl gputask %s: %v", strings.Join(args, " "), err)
	}
}

// indented returns lines as the content of a field.
func indented(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			lines.WriteString("  " + line)
		}
	}
	return lines.String()
}
