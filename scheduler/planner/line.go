// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/queues"
)

// lineCore implements queues.Core.
type lineCore struct{ planner *Planner }

func (c lineCore) RequestLater(attempt *gangs.Attempt) (*gangs.Request, error) {
	return c.planner.finder.requestLater(attempt)
}
func (c lineCore) ShapeOf(shape *placement.Shape) placement.Shape {
	return c.planner.finder.shapeOf(shape)
}
func (c lineCore) UnpreparedClaims(attempt *gangs.Attempt) string {
	return c.planner.devices.Unprepared(attempt)
}
func (c lineCore) Demands(except string) []queues.Demand { return c.planner.kept.demands(except) }
func (c lineCore) KeptFor() map[string]bool              { return c.planner.kept.groups() }
func (c lineCore) Do(actions gangs.Actions)              { c.planner.do(actions) }
func (c lineCore) EndPlaces(group string)                { c.planner.endPlaces(group) }

func (c lineCore) CountStart(result string) {
	c.planner.metrics.estimated.WithLabelValues(result).Inc()
}

// ReportPostponed tells the owner of a gang, in an Event of the leader.
func (c lineCore) ReportPostponed(leader *corev1.Pod, action, text string) {
	c.planner.handle.EventRecorder().WithLogger(c.planner.logger).Eventf(leader, nil, corev1.EventTypeNormal, "StartPostponed", action, "%s", text)
}

// WriteEstimate writes an estimate into a Pod's annotation. Without one the annotation is empty: the subresource status
// can't remove it without knowing that it is there.
func (c lineCore) WriteEstimate(ctx context.Context, pod *corev1.Pod, estimate *v1.StartEstimate) error {
	var text []byte
	if estimate != nil {
		var err error
		if text, err = json.Marshal(estimate); err != nil {
			return err
		}
	}
	member := c.planner.registry.Member(pod.UID)
	if member == nil && estimate == nil {
		return nil // it is gone, perhaps with thousands of others
	}
	gang := ""
	if member != nil {
		gang = member.Group().Key
	}
	return c.planner.reports.Annotate(ctx, pod, gang, map[string]string{v1.AnnotationStartEstimate: string(text)})
}
