// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// WritePeriod is how often the status of a queue is written at most, unless its spec or one
// of its conditions has changed.
const WritePeriod = time.Minute

// Report is what statuses are made of.
type Report struct {
	Tree     *queueing.Tree
	View     *View
	Accounts Accounts
	// Supply is what the cluster has; nil if it is not known.
	Supply Supply
	// HalfLife is that of Accounts, and Factors are their fair-share factors.
	HalfLife time.Duration
	Factors  map[string]float64
	Now      time.Time

	running, waiting map[string]int32
}

// NewReport returns a Report about queues.
func NewReport(view *View, accounts Accounts, halfLife time.Duration, now time.Time) *Report {
	r := &Report{Tree: view.tree, View: view, Accounts: accounts, HalfLife: halfLife, Factors: accounts.Factors(view.tree, view.Waits), Now: now}
	r.running, r.waiting = view.counts()
	return r
}

// Status returns the new status of a queue.
func (r *Report) Status(queue *v1.GPUQueue) v1.GPUQueueStatus {
	status := v1.GPUQueueStatus{
		ObservedGeneration: queue.Generation,
		Conditions:         slices.Clone(queue.Status.Conditions),
		Resources:          r.resources(queue),
		Summary:            r.summary(queue),
		Usage:              r.usage(queue.Name),
		Running:            r.running[queue.Name],
		Waiting:            r.waiting[queue.Name],
	}
	ready := metav1.Condition{
		Type: v1.ConditionQueueReady, Status: metav1.ConditionTrue, Reason: v1.ReasonQueueAccepted, Message: "the queue works as specified",
		ObservedGeneration: queue.Generation, LastTransitionTime: metav1.NewTime(r.Now),
	}
	if problem := Problem(queue, r.Tree); problem != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, string(problem.Reason), problem.Message
	}
	meta.SetStatusCondition(&status.Conditions, ready)
	if r.Supply != nil {
		meta.SetStatusCondition(&status.Conditions, r.effective(queue))
	}
	return status
}

func (r *Report) resources(queue *v1.GPUQueue) []v1.GPUQueueUsed {
	models := map[string]bool{v1.AnyGPU: true}
	for i := range queue.Spec.Resources {
		models[queue.Spec.Resources[i].GPU] = true
	}
	for _, ledger := range []*queueing.Ledger{r.View.Held, r.View.Waiting} {
		for _, model := range ledger.Models(queue.Name) {
			if model != "" { // it counts with all others only
				models[model] = true
			}
		}
	}
	var resources []v1.GPUQueueUsed
	for _, model := range slices.Sorted(maps.Keys(models)) {
		resources = append(resources, v1.GPUQueueUsed{
			GPU:      model,
			Used:     r.View.Held.Held(queue.Name, model).String(),
			Borrowed: r.View.Held.Borrowed(queue.Name, model).String(),
			Waiting:  r.View.Waiting.Held(queue.Name, model).String(),
		})
	}
	return resources
}

func (r *Report) summary(queue *v1.GPUQueue) *v1.GPUQueueSummary {
	guaranteed, limits := map[string]string{}, map[string]string{}
	for i := range queue.Spec.Resources {
		resource := &queue.Spec.Resources[i]
		if resource.Guaranteed > 0 {
			guaranteed[resource.GPU] = strconv.Itoa(int(resource.Guaranteed))
		}
		if resource.Limit != nil {
			limits[resource.GPU] = strconv.Itoa(int(*resource.Limit))
		}
	}
	if len(guaranteed) == 0 {
		guaranteed[v1.AnyGPU] = "0"
	}
	return &v1.GPUQueueSummary{
		Guaranteed: inOneLine(guaranteed), Limit: inOneLine(limits),
		Used:     r.View.Held.Held(queue.Name, v1.AnyGPU).String(),
		Borrowed: r.View.Held.Borrowed(queue.Name, v1.AnyGPU).String(),
		Waiting:  r.View.Waiting.Held(queue.Name, v1.AnyGPU).String(),
	}
}

// maxLine is the length of a line of the summary at most, as in the schema.
const maxLine = 1024

// inOneLine returns "16", or "*=16,h100-80gb-hbm3=8".
func inOneLine(byModel map[string]string) string {
	if all, found := byModel[v1.AnyGPU]; found && len(byModel) == 1 {
		return all
	}
	var parts []string
	length := 0
	for _, model := range slices.Sorted(maps.Keys(byModel)) {
		part := model + "=" + byModel[model]
		if length += len(part) + 1; length > maxLine-len(",…") {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}

func (r *Report) usage(queue string) *v1.GPUQueueTime {
	account := r.Accounts[queue]
	if account == nil {
		return nil
	}
	usage := &v1.GPUQueueTime{
		GPUSeconds:      int64(math.Round(account.All.GPUSeconds)),
		OwnGPUSeconds:   int64(math.Round(account.Own.GPUSeconds)),
		HalfLifeSeconds: int64(r.HalfLife / time.Second),
		AsOf:            metav1.NewTime(account.All.At),
		GPUHours:        strconv.FormatFloat(account.Total/time.Hour.Seconds(), 'f', 3, 64),
	}
	if factor, found := r.Factors[queue]; found {
		usage.Factor = strconv.FormatFloat(factor, 'f', 2, 64)
	}
	return usage
}

// WorthWriting reports whether a new status is to be written now: at once if it is about another spec or its condition
// has changed, or if the time of what was used is too far ahead; after WritePeriod if anything else has but the decay
// of what was used.
func WorthWriting(before, after *v1.GPUQueueStatus, now time.Time) bool {
	if before.ObservedGeneration != after.ObservedGeneration || !equality.Semantic.DeepEqual(before.Conditions, after.Conditions) {
		return true
	}
	if before.Usage != nil {
		switch age := now.Sub(before.Usage.AsOf.Time); {
		case age < -queueing.MaxAhead:
			return true
		case age < WritePeriod:
			return false
		}
	}
	a, b := *before, *after
	a.Usage, b.Usage = nil, nil
	return !equality.Semantic.DeepEqual(a, b) || usageDiffers(before.Usage, after.Usage)
}

func usageDiffers(before, after *v1.GPUQueueTime) bool {
	if before == nil || after == nil {
		return before != after
	}
	return before.GPUHours != after.GPUHours || before.Factor != after.Factor || before.HalfLifeSeconds != after.HalfLifeSeconds
}
