// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package stages

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/itchyny/gojq"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// stage is the part of KWOK's Stage that the tests need. Its package would link much of
// Kubernetes.
type stage struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		ResourceRef struct {
			Kind string `json:"kind"`
		} `json:"resourceRef"`
		Selector struct {
			MatchExpressions []struct {
				Key      string   `json:"key"`
				Operator string   `json:"operator"`
				Values   []string `json:"values"`
			} `json:"matchExpressions"`
		} `json:"selector"`
		Delay struct {
			DurationMilliseconds int64 `json:"durationMilliseconds"`
		} `json:"delay"`
		Next struct {
			Delete         bool   `json:"delete"`
			StatusTemplate string `json:"statusTemplate"`
			Patches        []struct {
				Subresource string `json:"subresource"`
				Template    string `json:"template"`
			} `json:"patches"`
		} `json:"next"`
		// Steps are instead of Next.
		Steps []struct {
			Patch struct {
				Template string `json:"template"`
			} `json:"patch"`
			Apply struct {
				Template string `json:"template"`
			} `json:"apply"`
		} `json:"steps"`
	} `json:"spec"`
}

// simulation applies stages the way KWOK does.
type simulation struct {
	stages []stage
	clock  string
}

func newSimulation(t *testing.T) *simulation {
	t.Helper()
	rendered, err := Render(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	s := &simulation{clock: "2026-07-01T12:00:00Z"}
	for document := range strings.SplitSeq(string(rendered), "---\n") {
		var one stage
		if err := yaml.Unmarshal([]byte(document), &one); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if one.Kind == "Stage" {
			s.stages = append(s.stages, one)
		}
	}
	return s
}

// match returns the names of the stages that KWOK would apply to an object.
func (s *simulation) match(t *testing.T, kind string, object any) []string {
	t.Helper()
	var names []string
	for i := range s.stages {
		if s.stages[i].Spec.ResourceRef.Kind == kind && matches(t, &s.stages[i], object) {
			names = append(names, s.stages[i].Metadata.Name)
		}
	}
	return names
}

func matches(t *testing.T, stage *stage, object any) bool {
	t.Helper()
	for _, expression := range stage.Spec.Selector.MatchExpressions {
		results := query(t, expression.Key, object)
		var holds bool
		switch expression.Operator {
		case "Exists":
			holds = len(results) > 0
		case "DoesNotExist":
			holds = len(results) == 0
		case "In":
			holds = overlap(results, expression.Values)
		case "NotIn":
			holds = !overlap(results, expression.Values)
		default:
			t.Fatalf("stage %s has the operator %q", stage.Metadata.Name, expression.Operator)
		}
		if !holds {
			return false
		}
	}
	return true
}

// query returns the values that KWOK gets: none for an error or null.
func query(t *testing.T, expression string, object any) []string {
	t.Helper()
	parsed, err := gojq.Parse(expression)
	if err != nil {
		t.Fatalf("%v in %s", err, expression)
	}
	var found []string
	iterator := parsed.Run(toMap(t, object))
	for {
		value, more := iterator.Next()
		if !more {
			return found
		}
		switch typed := value.(type) {
		case error:
			return nil
		case string:
			found = append(found, typed)
		case bool:
			found = append(found, strconv.FormatBool(typed))
		}
	}
}

func overlap(some, others []string) bool {
	for _, value := range some {
		if slices.Contains(others, value) {
			return true
		}
	}
	return false
}

// play returns the Pod after the only stage that matches it.
func (s *simulation) play(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	names := s.match(t, "Pod", pod)
	if len(names) != 1 {
		t.Fatalf("the Pod would play the stages %v, want one", names)
	}
	return s.patch(t, s.named(t, names[0]), pod)
}

// named returns a stage.
func (s *simulation) named(t *testing.T, name string) *stage {
	t.Helper()
	i := slices.IndexFunc(s.stages, func(one stage) bool { return one.Metadata.Name == name })
	if i < 0 {
		t.Fatalf("there is no stage %s", name)
	}
	return &s.stages[i]
}

func (s *simulation) patch(t *testing.T, stage *stage, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	next := stage.Spec.Next
	text, root := next.StatusTemplate, "status"
	switch {
	case len(next.Patches) > 0:
		text, root = next.Patches[0].Template, ""
	case len(stage.Spec.Steps) > 0:
		text, root = stage.Spec.Steps[0].Patch.Template, ""
	}
	change := toMap(t, yamlOf(t, s.execute(t, text, pod)))
	if root != "" {
		change = map[string]any{root: change}
	}
	patched, err := strategicpatch.StrategicMergePatch(toJSON(t, pod), toJSON(t, change), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	result := &corev1.Pod{}
	if err := json.Unmarshal(patched, result); err != nil {
		t.Fatal(err)
	}
	return result
}

// applied returns the Event that a stage creates, in its last step.
func (s *simulation) applied(t *testing.T, stage *stage, pod *corev1.Pod) *corev1.Event {
	t.Helper()
	steps := stage.Spec.Steps
	event := &corev1.Event{}
	if err := json.Unmarshal(toJSON(t, yamlOf(t, s.execute(t, steps[len(steps)-1].Apply.Template, pod))), event); err != nil {
		t.Fatal(err)
	}
	return event
}

func (s *simulation) execute(t *testing.T, text string, object any) string {
	t.Helper()
	addresses := func(...any) []string { return []string{"10.0.0.9"} }
	parsed, err := template.New("stage").Funcs(sprig.TxtFuncMap()).Funcs(template.FuncMap{
		"Quote":       func(value any) string { return strconv.Quote(toText(value)) },
		"Now":         func() string { return s.clock },
		"NodeIPsWith": addresses,
		"PodIPsWith":  addresses,
		"NodeConditions": func() any {
			return []any{map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}}
		},
	}).Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, toMap(t, object)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func toText(value any) string {
	text, _ := value.(string)
	return text
}

func yamlOf(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return value
}

func toJSON(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func toMap(t *testing.T, value any) map[string]any {
	t.Helper()
	var result map[string]any
	if err := json.Unmarshal(toJSON(t, value), &result); err != nil {
		t.Fatal(err)
	}
	return result
}
