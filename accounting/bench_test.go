// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/accounting"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// BenchmarkAPass measures what a minute costs for 50,000 Pods, half of which wait.
func BenchmarkAPass(b *testing.B) {
	pods := make([]*corev1.Pod, 50_000)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("pod-%d", i), 1)
		if i%2 == 0 {
			bound(time.Minute)(pods[i])
		}
	}
	translate := &translator{
		queueOf: func(*corev1.Pod) string { return "vision" }, modelOf: func(string) string { return "h100" }, task: func(*corev1.Pod) *v1.GPUTask { return nil },
		since: testTime.Add(time.Hour),
	}
	book := accounting.NewBook(testTime)
	for b.Loop() {
		translated := make([]accounting.Pod, 0, len(pods))
		for _, pod := range pods {
			translated = append(translated, translate.pod(pod))
		}
		next := book.Clone()
		next.Charge(translated, next.AsOf.Add(time.Minute))
		content, err := next.Encode()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(content)), "bytes")
		book = next
	}
}
