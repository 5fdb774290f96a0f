// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accepted_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/artifacts"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/test/accepted"
)

// FuzzTask reads any text as a GPUTask. If the API server accepts it, its Pods can be made, planned
// and bound, and no GPU is given twice: see stored.check.
func FuzzTask(f *testing.F) {
	for _, task := range examples(f) {
		f.Add(task, []byte(nil))
	}
	f.Add([]byte(`{"metadata":{"name":"a"},"spec":{"replicas":3,"minAvailable":2,"maxReplicas":5,"gpu-amount":"0.46","topology":{"level":"leaf","mode":"Required"},"template":{"spec":{"containers":[{"name":"gpu-task","resources":{"requests":{"nvidia.com/gpu":"1"},"limits":{"nvidia.com/gpu":"1"}}}]}}}}`), []byte(nil))
	f.Add([]byte(`{"metadata":{"name":"a"},"spec":{"completions":5,"replicas":2,"backoffLimitPerIndex":1,"maxFailedIndexes":1,"failureRules":[{"action":"FailIndex","onExitCodes":{"operator":"In","values":[3]}}]}}`), []byte(nil))
	f.Add([]byte(`{"metadata":{"name":"a"},"spec":{"gpuProfile":"1g.10gb+me","gpu-amount":"7","checkpoint":{"mode":"Signal","timeoutSeconds":60},"suspend":true,"dependsOn":[{"name":"b"}]}}`), []byte(nil))
	validate := validator(f, "gputasks")
	f.Fuzz(func(t *testing.T, text []byte, edits []byte) {
		text = fuzzjson.Edit(text, edits)
		object := objectIn(text)
		if object == nil {
			return
		}
		object["apiVersion"], object["kind"] = v1.GroupVersion.String(), v1.TaskKind().Kind
		checkAccepted(t, validate, object, len(text))
	})
}

// FuzzTaskFields puts any values into the fields of a GPUTask that users fill in most, and checks
// the same.
func FuzzTaskFields(f *testing.F) {
	f.Add("16Gi", "8", "h100-80gb-hbm3", "2", "", "40G", "", "gpu-high-priority", "research", "leaf", int32(2), int32(0), int32(0), `{"containers":[{"name":"gpu-task","image":"a"}]}`)
	f.Add("4Mi", "500m", "", "0.46", "", "", "small", "", "", "", int32(1), int32(0), int32(0), `{"initContainers":[{"name":"i","restartPolicy":"Always","resources":{"requests":{"falldio.com/gpu":"1"}}}]}`)
	f.Add("1Pi", "100k", "rtx4090", "9999", "", "16Ti", "", "", "", "zone", int32(4096), int32(1), int32(0), `{"nodeSelector":{"kubernetes.io/hostname":"agent"},"tolerations":[{"operator":"Exists"}]}`)
	f.Add("", "", "", "7", "1g.10gb", "", "", "", "", "", int32(3), int32(0), int32(9), `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["slices"]}]}]}}}}`)
	f.Add("1e3Gi", "1e-3", "", "0.01", "", "0.25Gi", "", "", "", "", int32(1), int32(0), int32(0), `{"overhead":{"cpu":"9E"},"containers":[{"name":"a","resources":{"requests":{"memory":"-1","ephemeral-storage":"9E"}}}]}`)
	validate := validator(f, "gputasks")
	f.Fuzz(func(t *testing.T, memory, cpu, gpu, amount, profile, gpuMemory, pool, priority, queue, level string, replicas, minAvailable, completions int32, podSpec string) {
		spec := map[string]any{}
		for key, value := range map[string]string{"memory": memory, "cpu": cpu, "gpu": gpu, "gpu-amount": amount, "gpuProfile": profile, "gpuMemory": gpuMemory, "nodePool": pool, "priority": priority, "queue": queue} {
			if value != "" {
				spec[key] = value
			}
		}
		for key, value := range map[string]int32{"replicas": replicas, "minAvailable": minAvailable, "completions": completions} {
			if value != 0 {
				spec[key] = int64(value)
			}
		}
		if level != "" {
			spec["topology"] = map[string]any{"level": level, "mode": "Required"}
		}
		if pod := objectIn([]byte(podSpec)); pod != nil {
			spec["template"] = map[string]any{"spec": pod}
		}
		checkAccepted(t, validate, map[string]any{
			"apiVersion": v1.GroupVersion.String(), "kind": v1.TaskKind().Kind, "metadata": map[string]any{"name": "task"}, "spec": spec,
		}, 200+len(podSpec))
	})
}

// examples returns the shipped tasks as JSON.
func examples(f *testing.F) (tasks [][]byte) {
	f.Helper()
	entries, err := fs.ReadDir(artifacts.Files, artifacts.Examples)
	if err != nil {
		f.Fatal(err)
	}
	for _, entry := range entries {
		content, err := artifacts.Files.ReadFile(path.Join(artifacts.Examples, entry.Name()))
		if err != nil {
			f.Fatal(err)
		}
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			text, err := yaml.YAMLToJSON([]byte(document))
			if err != nil {
				f.Fatal(err)
			}
			tasks = append(tasks, text)
		}
	}
	return tasks
}

// Tasks are checked with this many Pods at most, and bound up to this many.
const mostPods, mostBound = 600, 40

// checkAccepted checks an object if the API server accepts it as a task.
func checkAccepted(t *testing.T, validate *accepted.Validator, object map[string]any, size int) {
	t.Helper()
	if err := validate.Create(object); err != nil {
		return
	}
	if err := validate.Create(object); err != nil {
		t.Errorf("what was accepted is refused with its defaults filled in: %v", err)
	}
	task := &v1.GPUTask{}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, task); err != nil {
		return // metadata, or a template that Go's types can't hold: the informer can't decode it either
	}
	if gputask.Total(task) > mostPods {
		return
	}
	task.Namespace, task.UID = "default", "uid"
	task.CreationTimestamp = metav1.NewTime(noon())
	fuzzlimit.Check(t, fuzzlimit.Limits{Bytes: 1 << 30, PerByte: 1 << 20, CPU: 30 * time.Second}, size, func() { (&stored{validate, object, task}).check(t) })
}

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// stored is a task that the API server has accepted.
type stored struct {
	validate *accepted.Validator
	object   map[string]any
	task     *v1.GPUTask
}

// check decides about a task, and binds its Pods.
func (s *stored) check(t *testing.T) {
	t.Helper()
	task := s.task
	task.Status, task.DeletionTimestamp = v1.GPUTaskStatus{}, nil
	task.Spec.Suspend, task.Spec.DependsOn = nil, nil
	delete(s.object, "status")
	decide := func(pods []*corev1.Pod) gputask.Plan {
		plan, err := gputask.Decide(gputask.Input{Task: task, Pods: pods, Now: noon(), Config: gputask.Config{Pods: gputask.PodDefaults{Image: "any", SchedulerName: "gpu-scheduler"}}})
		if err != nil {
			t.Fatalf("no decision: %v", err)
		}
		return plan
	}
	plan := decide(nil)
	if len(plan.Create) > gputask.Replicas(task) {
		t.Fatalf("%d Pods are created for %d", len(plan.Create), gputask.Replicas(task))
	}
	created := build(t, &plan)
	s.write(t, &plan.Status)
	names := map[string]bool{}
	for i, pod := range created {
		if names[pod.Name] {
			t.Errorf("two Pods have the name %s", pod.Name)
		}
		names[pod.Name] = true
		pod.UID = types.UID("pod " + pod.Name)
		pod.CreationTimestamp = metav1.NewTime(noon().Add(time.Duration(i) * time.Second))
		pod.Status.Phase = corev1.PodPending
	}
	if len(plan.Create) == 0 {
		if plan.Status.Message == "" {
			t.Error("no Pod is created, and nobody is told why")
		}
		return
	}
	bind(t, created)
	again := decide(created)
	if len(again.Create) > 0 && !gputask.IsArray(task) {
		t.Errorf("%d more Pods are created", len(again.Create))
	}
	s.write(t, &again.Status)
}

// build builds the Pods that a plan creates.
func build(t *testing.T, plan *gputask.Plan) []*corev1.Pod {
	t.Helper()
	pods := make([]*corev1.Pod, len(plan.Create))
	for i := range plan.Create {
		pod, err := plan.Create[i].Build()
		if err != nil {
			t.Fatalf("Pod %d of the plan can't be built: %v", i, err)
		}
		pods[i] = pod
	}
	return pods
}

// write writes the status, and fails the test if the API server does not accept it.
func (s *stored) write(t *testing.T, status *v1.GPUTaskStatus) {
	t.Helper()
	after := maps.Clone(s.object)
	after["status"] = fields(t, status)
	if err := s.validate.Update(s.object, after); err != nil {
		t.Errorf("the status is refused: %v", err)
	}
	s.object, s.task.Status = after, *status
}

// bind plans the Pods as one gang, and binds those that get a place as the scheduler does.
func bind(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	pods = pods[:min(len(pods), mostBound)]
	waiting, err := snapshot.Waiting(snapshot.DefaultLevels(), pods, 0)
	if err != nil {
		return // it is said in the Pods' condition
	}
	shapes := make([]placement.Shape, len(waiting.Roles))
	for i := range waiting.Roles {
		shapes[i] = waiting.Roles[i].Shape
	}
	all := nodes(t)
	cluster := clusterFor(all, nil, shapes...)
	plan, fits, err := cluster.Plan(&waiting.Gang)
	if err != nil {
		return // it asks for what no node can have, and is told so
	}
	if !fits {
		if explanation, err := cluster.Explain(&waiting.Gang); err != nil || explanation == nil || explanation.String() == "" {
			t.Errorf("the gang does not fit, and nobody is told why: %v", err)
		}
		return
	}
	members, places := waiting.Assign(plan)
	for i, pod := range members {
		place := &places[i]
		if err := cluster.Place(placement.Pod{Name: string(pod.UID), Node: place.Node, Use: place.Use}); err != nil {
			t.Fatalf("Pod %s gets a place that it can't have: %v", pod.Name, err)
		}
		assign(t, cluster.Cards[place.Node], pod, place.GPUs)
		pod.Spec.NodeName, pod.Status.Phase = place.Node, corev1.PodRunning
	}
	checkCards(t, members, places)
	checkSame(t, all, members, places, cluster, shapes)
}

// assign gives a Pod its cards, and fails the test if the annotation does not say the same.
func assign(t *testing.T, cards snapshot.Cards, pod *corev1.Pod, gpus []int) {
	t.Helper()
	text, err := cards.Assignment(pod, gpus)
	if err != nil {
		t.Fatal(err)
	}
	if text == "" {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[inventory.AssignmentAnnotation] = text
	if read, known := cards.Assigned(pod); !known || !cmp.Equal(read, gpus) {
		t.Errorf("Pod %s gets the cards %v, and its annotation %s says %v", pod.Name, gpus, text, read)
	}
}

// checkCards fails the test if a card is given twice, or one that the node does not have, or if a
// node gets more Pods, CPU or memory than it has room for.
func checkCards(t *testing.T, pods []*corev1.Pod, places []placement.Place) {
	t.Helper()
	type card struct {
		node string
		gpu  int
	}
	cards, cpu, memory := map[card]int{}, map[string]int64{}, map[string]int64{}
	for i := range places {
		place := &places[i]
		for _, gpu := range place.GPUs {
			if cards[card{place.Node, gpu}] += place.Percent; cards[card{place.Node, gpu}] > placement.Card {
				t.Errorf("GPU %d of node %s is given to several Pods: %d %%", gpu, place.Node, cards[card{place.Node, gpu}])
			}
			if gpu < 0 || gpu > 3 {
				t.Errorf("Pod %s gets GPU %d of node %s", pods[i].Name, gpu, place.Node)
			}
		}
		cpu[place.Node] += place.CPU
		memory[place.Node] += place.Memory
		if cpu[place.Node] > 64_000 || memory[place.Node] > 512<<10 || place.CPU < 0 || place.Memory < 0 {
			t.Errorf("node %s holds %d milli-cores and %d MiB", place.Node, cpu[place.Node], memory[place.Node])
		}
	}
}

// checkSame fails the test if somebody who sees only the bound Pods, as a scheduler that was
// restarted, sees other cards as free.
func checkSame(t *testing.T, all []*corev1.Node, pods []*corev1.Pod, places []placement.Place, cluster *snapshot.Cluster, shapes []placement.Shape) {
	t.Helper()
	rebuilt := clusterFor(all, pods, shapes...)
	for i := range places {
		node := places[i].Node
		if cluster.Cards[node].Anonymous() {
			continue // which cards they have is guessed
		}
		if diff := cmp.Diff(cluster.CardStates(node), rebuilt.CardStates(node)); diff != "" {
			t.Errorf("the cards of node %s (-after planning +seen from the Pods):\n%s", node, diff)
		}
	}
}
