// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestWhatAPodSaysAboutItsGang(t *testing.T) {
	t.Parallel()
	type said = map[string]string
	tests := map[string]struct {
		labels, annotations said
		want                *GangLabels
		err                 string
	}{
		"nothing":                    {},
		"a task's Pod that is alone": {labels: said{v1.LabelTask: "train"}},
		"a group":                    {labels: said{v1.LabelPodGroup: "train", v1.LabelMinAvailable: "4"}, want: &GangLabels{Name: "default/train", Min: 4}},
		"a task with a minimum":      {labels: said{v1.LabelTask: "train", v1.LabelMinAvailable: "4"}, want: &GangLabels{Name: "default/train", Min: 4}},
		"a group of a task":          {labels: said{v1.LabelTask: "train", v1.LabelPodGroup: "g", v1.LabelMinAvailable: "1"}, want: &GangLabels{Name: "default/g", Min: 1}},
		"a level that is preferred": {
			labels: said{v1.LabelPodGroup: "train", v1.LabelMinAvailable: "4"}, annotations: said{v1.AnnotationTopologyLevel: "leaf"},
			want: &GangLabels{Name: "default/train", Min: 4, Level: "leaf"},
		},
		"a level that is said to be preferred": {
			labels:      said{v1.LabelPodGroup: "train", v1.LabelMinAvailable: "4"},
			annotations: said{v1.AnnotationTopologyLevel: "leaf", v1.AnnotationTopologyMode: string(v1.TopologyPreferred)},
			want:        &GangLabels{Name: "default/train", Min: 4, Level: "leaf"},
		},
		"a level that is required": {
			labels:      said{v1.LabelPodGroup: "train", v1.LabelMinAvailable: "4"},
			annotations: said{v1.AnnotationTopologyLevel: "leaf", v1.AnnotationTopologyMode: string(v1.TopologyRequired)},
			want:        &GangLabels{Name: "default/train", Min: 4, Level: "leaf", Required: true},
		},
		"a minimum without a name":       {labels: said{v1.LabelMinAvailable: "4"}, err: "label falldio.com/pod-group: is missing"},
		"a name without a minimum":       {labels: said{v1.LabelPodGroup: "train"}, err: "label falldio.com/min-available: must be the number of Pods"},
		"a minimum that is not a number": {labels: said{v1.LabelPodGroup: "train", v1.LabelMinAvailable: "all"}, err: `is "all"`},
		"a minimum of none":              {labels: said{v1.LabelPodGroup: "train", v1.LabelMinAvailable: "0"}, err: "at least 1"},
		"a minimum beyond all numbers":   {labels: said{v1.LabelPodGroup: "train", v1.LabelMinAvailable: "99999999999999999999"}, err: "min-available"},
		"a mode that there is not":       {labels: said{v1.LabelPodGroup: "train", v1.LabelMinAvailable: "1"}, annotations: said{v1.AnnotationTopologyMode: "Must"}, err: `annotation falldio.com/topology-mode: must be Required or Preferred, is "Must"`},
		"a topology without its level":   {labels: said{v1.LabelPodGroup: "train", v1.LabelMinAvailable: "1"}, annotations: said{v1.AnnotationTopologyMode: string(v1.TopologyRequired)}, err: "annotation falldio.com/topology-level: is missing"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pod("gpu=1")
			p.Labels, p.Annotations = test.labels, test.annotations
			got, err := Gang(p)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || got != nil {
					t.Errorf("labels %+v, error %v, want one with %q", got, err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}
