// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
	"k8s.io/kubectl/pkg/cmd/get"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// sortField is the flag --sort-by. kubectl's own sorter ends the process at a field that has
// no order.
type sortField struct {
	text string
	path *jsonpath.JSONPath
}

func newSortField(text string) (*sortField, error) {
	if text == "" {
		return &sortField{}, nil
	}
	expression, err := get.RelaxedJSONPathExpression(text)
	if err != nil {
		return nil, fmt.Errorf("--sort-by=%s: %w", text, err)
	}
	path := jsonpath.New("sort-by").AllowMissingKeys(true)
	if err := path.Parse(expression); err != nil {
		return nil, fmt.Errorf("--sort-by=%s: %w", text, err)
	}
	return &sortField{text: text, path: path}, nil
}

// sort sorts tasks by the field. Those without it come first, and equal ones keep their order.
func (f *sortField) sort(tasks []v1.GPUTask) error {
	if f.path == nil || len(tasks) == 0 {
		return nil
	}
	type sortable struct {
		task v1.GPUTask
		key  any
	}
	list, found := make([]sortable, len(tasks)), false
	for i := range tasks {
		key, err := f.value(&tasks[i])
		if err != nil {
			return err
		}
		list[i] = sortable{task: tasks[i], key: key}
		found = found || key != nil
	}
	if !found {
		return fmt.Errorf("--sort-by=%s: none of the tasks has this field", f.text)
	}
	slices.SortStableFunc(list, func(a, b sortable) int { return compareValues(a.key, b.key) })
	for i := range list {
		tasks[i] = list[i].task
	}
	return nil
}

// value returns the field of a task: a float64, a string or nil.
func (f *sortField) value(task *v1.GPUTask) (any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(task)
	if err != nil {
		return nil, fmt.Errorf("--sort-by=%s: %w", f.text, err)
	}
	results, err := f.path.FindResults(fields)
	if err != nil {
		return nil, fmt.Errorf("--sort-by=%s: %w", f.text, err)
	}
	if len(results) == 0 || len(results[0]) == 0 {
		return nil, nil
	}
	switch value := results[0][0].Interface().(type) {
	case nil, string, float64:
		return value, nil
	case int64:
		return float64(value), nil
	case bool:
		return fmt.Sprint(value), nil
	default:
		return nil, fmt.Errorf("--sort-by=%s: is not a field with a single value", f.text)
	}
}

// compareValues compares quantities such as 0.5 and 16Gi by their amount.
func compareValues(a, b any) int {
	switch {
	case a == nil || b == nil:
		return cmp.Compare(rank(a), rank(b))
	case rank(a) != rank(b):
		return cmp.Compare(rank(a), rank(b))
	}
	if number, isNumber := a.(float64); isNumber {
		return cmp.Compare(number, b.(float64))
	}
	left, right := a.(string), b.(string)
	amount, err := resource.ParseQuantity(left)
	if err != nil {
		return cmp.Compare(left, right)
	}
	other, _ := resource.ParseQuantity(right) // it is a quantity, too: it has the same rank
	return cmp.Or(amount.Cmp(other), cmp.Compare(left, right))
}

// rank orders values of different types. Text that is a quantity comes before other text: there would
// be no order if "2" was compared with "1E" by their amount, and both with "1x" by their letters.
func rank(value any) int {
	switch value := value.(type) {
	case nil:
		return 0
	case float64:
		return 1
	case string:
		if _, err := resource.ParseQuantity(value); err == nil {
			return 2
		}
	}
	return 3
}
