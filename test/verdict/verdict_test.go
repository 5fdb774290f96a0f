// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"encoding/json"
	"errors"
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

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	access "falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/snapshot"
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
	shared.close(t)
	all := causes()
	for name, one := range all {
		shared.prepare(t, name, &one)
	}
	for name, one := range all { // by now what was prepared is in force
		shared.apply(t, name, task("task", one.spec))
	}
	made := time.Now()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one := all[name]
		t.Run(name, func(t *testing.T) { check(t, name, &one, made) })
	}
}

// check waits until everybody says the same about the task of a cause, and what the golden file says. All causes were
// made at a time: what is said about the first of them was awaited for all.
func check(t *testing.T, name string, one *cause, made time.Time) {
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
		said.cause = one
		before, text = text, said.String()
		problem = said.disagreement(one.want)
		switch {
		case *update && problem == "" && text == before && time.Since(made) > settled:
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		case !*update && problem == "" && text == string(golden):
			return
		case time.Since(made) > limit && polls > fewestPolls:
			t.Fatalf("%s\n%s (-want +got):\n%s\n%s", problem, path, gocmp.Diff(string(golden), text), text)
		}
	}
}

// surfaces are what everybody says about one task.
type surfaces struct {
	reason, message     string
	explained           explanation
	queued              *entry
	listed, explainText string
	described           string
	// asked is what "whatif" says about the same manifest, and events what Events of the task and its Pods do.
	asked  answer
	events []string
	page   page
	cause  *cause
}

// answer is what "whatif" writes as JSON, as far as it is compared.
type answer struct {
	Verdict  analysis.Verdict `json:"verdict"`
	Problem  string           `json:"problem"`
	Nodes    string           `json:"nodes"`
	Commands []string         `json:"commands"`
}

// page is what the rows of the page in a browser say.
type page struct {
	message, headline, lines string
	waiting                  *rows.Entry
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
	said.described = gputask(t, "describe", "task", "--namespace="+namespace)
	said.events, said.asked, said.page = shared.events(t, namespace), shared.asked(t, namespace), shared.page(t, namespace)
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
	case !says(s.described, explained.Cause):
		return fmt.Sprintf("describe does not have the cause %q:\n%s", explained.Cause, s.described)
	case s.queued != nil && s.queued.disagreement(want, explained.Cause) != "":
		return s.queued.disagreement(want, explained.Cause)
	default:
		return cmp.Or(s.page.disagreement(want, explained.Cause), s.eventsDisagree(), s.askedDisagrees(want))
	}
}

// says reports whether a text has a cause, whatever it writes times like.
func says(text, cause string) bool { return strings.Contains(withoutTimes(text), withoutTimes(cause)) }

// disagreement returns in what the rows of the page say something else; empty if they do not.
func (p *page) disagreement(want v1.TaskReason, cause string) string {
	switch {
	case !says(p.message, cause):
		return fmt.Sprintf("the row of the task says %q, want %q", p.message, cause)
	case !says(p.headline+"\n"+p.lines, cause):
		return fmt.Sprintf("the panel says %q and %q, want %q", p.headline, p.lines, cause)
	case p.waiting != nil && (p.waiting.Verdict.Kind != want || !strings.Contains(p.waiting.Reason, cause)):
		return fmt.Sprintf("the row of what waits says %s: %q, want %s: %q", p.waiting.Verdict.Kind, p.waiting.Reason, want, cause)
	default:
		return ""
	}
}

// eventsDisagree returns that no Event has the cause, of those that are to have it.
func (s *surfaces) eventsDisagree() string {
	cause := s.explained.Verdict.Cause
	if s.cause.silent || slices.ContainsFunc(s.events, func(message string) bool { return says(message, cause) }) {
		return ""
	}
	return fmt.Sprintf("no Event has the cause %q: %q", cause, s.events)
}

// askedDisagrees returns in what "whatif" says something else, if it can know.
func (s *surfaces) askedDisagrees(want v1.TaskReason) string {
	outlook := analysis.Outlook{Verdict: s.asked.Verdict}
	cause := cmp.Or(s.cause.asked, strings.TrimPrefix(s.explained.Verdict.Cause, "it would not fit even if nothing else ran; "))
	isSaid := strings.Contains(s.asked.Nodes+"\n"+s.asked.Problem, cause)
	switch {
	case s.cause.unforeseen && isSaid && outlook.Kind() == want:
		return fmt.Sprintf("whatif knows it after all: %+v", s.asked)
	case s.cause.unforeseen:
		return ""
	case outlook.Kind() != want:
		return fmt.Sprintf("whatif says %s, want %s: %+v", outlook.Kind(), want, s.asked)
	case !isSaid:
		return fmt.Sprintf("whatif says %+v, want %q", s.asked, cause)
	default:
		return ""
	}
}

// events returns what Events in the namespace of a cause say about its task and its Pods.
func (c *testCluster) events(t *testing.T, namespace string) (messages []string) {
	t.Helper()
	list, err := c.kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if name := list.Items[i].InvolvedObject.Name; name == "task" || strings.HasPrefix(name, "task-") {
			messages = append(messages, list.Items[i].Message)
		}
	}
	slices.Sort(messages)
	return slices.Compact(messages)
}

// asked returns what "whatif" says about another task of the same manifest.
func (c *testCluster) asked(t *testing.T, namespace string) answer {
	t.Helper()
	var answers []answer
	manifest := strings.ReplaceAll(task("another", causes()[namespace].spec), "NAMESPACE", namespace)
	text, err := gputaskOf(t, manifest, "whatif", "--filename=-", "--namespace="+namespace, "--output=json")
	if exit, refused := errors.AsType[*exec.ExitError](err); refused {
		return answer{Problem: string(exit.Stderr)}
	}
	if err := cmp.Or(err, json.Unmarshal([]byte(text), &answers)); err != nil || len(answers) != 1 {
		t.Fatalf("whatif says %s: %v", text, err)
	}
	return answers[0]
}

// page returns what the page would say that the program "kubectl-gputask dashboard" serves.
func (c *testCluster) page(t *testing.T, namespace string) (said page) {
	t.Helper()
	observed, err := access.Observe(t.Context(), &access.Clients{Kube: c.kube, Tasks: c.tasks, Namespace: namespace}, snapshot.DefaultLevels(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	view, queues := analysis.NewView(&observed.Objects, nil), observed.Queues.ForAnalysis()
	view.UseQueues(queues, observed.Waiting)
	set, _ := rows.Build(&rows.Input{View: view, Queues: queues, Waiting: observed.Waiting})
	if row, found := set[rows.Tasks][namespace+"/task"].(*rows.Task); found {
		said.message = row.Message
	}
	said.waiting, _ = set[rows.Waiting][analysis.KindTask+" "+namespace+"/task"].(*rows.Entry)
	if explained, found := view.Explain(namespace, "task"); found {
		row := rows.ExplanationOf(view, explained, observed.Now)
		said.headline = row.Headline
		for _, line := range row.Lines {
			said.lines += line.Name + ": " + line.Value + "\n"
		}
	}
	return said
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
	lines := []string{"reason: " + s.reason, "message: " + s.message}
	if s.queued != nil {
		lines = append(lines, "queue: "+s.queued.Reason)
	}
	if s.page.waiting != nil {
		lines = append(lines, fmt.Sprintf("page, waiting: %s: %s", s.page.waiting.Verdict.Kind, s.page.waiting.Reason))
	}
	lines = append(lines, "page, panel: "+s.page.headline, strings.TrimSpace(strings.Join([]string{"whatif:", string(s.asked.Verdict), s.asked.Problem, s.asked.Nodes}, " ")))
	for _, command := range s.asked.Commands {
		lines = append(lines, "whatif, try: "+command)
	}
	if !s.cause.silent {
		lines = append(lines, "an Event says the same")
	}
	explained, _, _ := strings.Cut(s.explainText, "\nWarnings about") // as many as there happened to be
	return withoutTimes(strings.Join(lines, "\n") + "\nlist: " + s.listed + "explain: " + explained)
}

var (
	aTime = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z| UTC)?|\b\d\d:\d\d(:\d\d)?( UTC)?`)
	anAge = regexp.MustCompile(`\b(\d+[hms])+\b`)
	aGap  = regexp.MustCompile(`(\S)  +`)
	// others are lines that the other causes change.
	others = regexp.MustCompile(`(?m)^(Free|Position|Expected|Runs on): .*\n`)
	// aNode is one of those with room, of which any may be chosen.
	aNode     = regexp.MustCompile(`\bfree-\d\b`)
	aBehind   = regexp.MustCompile(`starts after .+? ends: `)
	aPosition = regexp.MustCompile(`; \d+(st|nd|rd|th) in (line|queue \S+?)(;.*)?\n`)
)

func withoutTimes(text string) string {
	text = aNode.ReplaceAllString(text, "NODE")
	text = aBehind.ReplaceAllString(aPosition.ReplaceAllString(text, "\n"), "")
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

// close has nodes take no Pods, each in another way.
func (c *testCluster) close(t *testing.T) {
	t.Helper()
	c.mustKubectl(t, "", "cordon", "cordoned-0")
	c.mustKubectl(t, "", "annotate", "node", "dead-0", "simulation.falldio.com/not-ready=true")
	c.mustKubectl(t, "", "taint", "node", "kept-0", "example.com/team=other:NoSchedule")
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
	out, err := gputaskOf(t, "", args...)
	if err != nil {
		t.Fatalf("kubectl gputask %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// gputaskOf is gputask with an input, which may fail.
func gputaskOf(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), programs.Binary("kubectl-gputask"), args...)
	command.Env, command.Stdin = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig()), strings.NewReader(input)
	out, err := command.Output()
	return string(out), err
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
