// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpufit

import (
	"encoding/json"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
	"falldio.github.io/gpu-controller/pkg/kueue"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// FuzzAnswers asks for places for any Workload, between two whose needs are known. Whatever it is,
// it gets an answer with a message within bounds of time and memory, the one before it gets the same
// answer as alone, and the one after it no better one.
func FuzzAnswers(f *testing.F) {
	for _, workload := range []*kueue.Workload{job("any", 4, 8), job("any", 33, 1), job("any", 1<<30, 0), job("any", 0, 0), job("any", -1, 1)} {
		text, err := json.Marshal(workload)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte(nil))
	}
	f.Add([]byte(`{"metadata":{"name":"any"},"spec":{"podSets":[{"name":"a","count":2,"template":{"metadata":{"labels":{"falldio.com/pod-group":"g","falldio.com/min-available":"2"},"annotations":{"falldio.com/topology-level":"leaf","falldio.com/topology-mode":"Required"}},`+
		`"spec":{"nodeSelector":{"pool":"on-demand"},"containers":[{"name":"c","resources":{"requests":{"falldio.com/gpu-percent":"46","cpu":"9E","memory":"-1"}}}]}}}]},"status":{"admission":{"podSetAssignments":[{"name":"a"}]}}}`), []byte(nil))
	f.Fuzz(func(t *testing.T, data []byte, edits []byte) {
		data = fuzzjson.Edit(data, edits)
		asking := &kueue.Workload{}
		if err := json.Unmarshal(data, asking); err != nil {
			return
		}
		before, after := job("before", 9, 1), job("after", 1, 8)
		alone := Answers(cluster(), anyFlavor, nil, []*kueue.Workload{before, after})
		var answers []Answer
		fuzzlimit.Check(t, fuzzlimit.Limits{Bytes: 64 << 20, PerByte: 64 << 10, CPU: 10 * time.Second}, len(data), func() {
			answers = Answers(cluster(), anyFlavor, nil, []*kueue.Workload{before, asking, after})
		})
		if answers[0].Fits != alone[0].Fits {
			t.Errorf("the Workload before it gets another answer: %+v, alone %+v", answers[0], alone[0])
		}
		if answers[2].Fits && !alone[1].Fits {
			t.Errorf("the Workload after it fits only behind it: %+v", answers[2])
		}
		if answers[1].Message == "" {
			t.Error("the answer has no message")
		}
		checkPods(t, asking, answers[1])
	})
}

// checkPods fails the test if a Workload fits that asks for more than there is.
func checkPods(t *testing.T, asking *kueue.Workload, answer Answer) {
	t.Helper()
	if !answer.Fits {
		return
	}
	pods, err := podsOf(asking, anyFlavor)
	if err != nil {
		t.Fatalf("it fits, but %v", err)
	}
	gpus := int64(0)
	for _, pod := range pods {
		requests := snapshot.Requests(pod)
		for _, name := range snapshot.GPUResources() {
			amount := requests[name]
			gpus += max(0, amount.Value())
		}
	}
	const all = 4 * 8
	if gpus > all {
		t.Errorf("%d Pods with %d GPUs fit, there are %d: %s", len(pods), gpus, all, answer.Message)
	}
}

func anyFlavor(string) *kueue.ResourceFlavor { return &kueue.ResourceFlavor{} }
