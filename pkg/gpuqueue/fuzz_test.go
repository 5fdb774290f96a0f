// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// FuzzStatus puts any values into the status of a queue, from which the next process counts on. Factors
// and sums are numbers, and a sum never falls.
func FuzzStatus(f *testing.F) {
	f.Add("0.5", "123.45", int64(3600), int64(1800), int64(60))
	f.Add("NaN", "NaN", int64(math.MaxInt64), int64(-1), int64(-1))
	f.Add("+Inf", "1e999", int64(math.MinInt64), int64(math.MinInt64), int64(math.MaxInt64))
	f.Add("-0", "-1", int64(0), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, factor, hours string, seconds, own, age int64) {
		queue := newQueue("q", "")
		queue.CreationTimestamp = ago(24 * time.Hour)
		queue.Status.Usage = &v1.GPUQueueTime{Factor: factor, GPUHours: hours, GPUSeconds: seconds, OwnGPUSeconds: own, AsOf: metav1.NewTime(now.Add(-time.Duration(age) * time.Second))}
		queues := []*v1.GPUQueue{queue}
		for name, value := range Factors(queues) {
			if !(value >= 0) || math.IsInf(value, 0) {
				t.Errorf("queue %s has the factor %v", name, value)
			}
		}
		accounts := Accounts{}
		accounts.Load(queues)
		before := accounts["q"].Total
		accounts.Charge(NewTree(queues), []Holding{{Queue: "q", Amount: 800, From: now.Add(-time.Hour)}}, now, time.Hour)
		for _, sum := range []float64{before, accounts["q"].Total, accounts["q"].All.GPUSeconds, accounts["q"].Own.GPUSeconds} {
			if !(sum >= 0) || math.IsInf(sum, 0) {
				t.Errorf("the account is %+v", accounts["q"])
			}
		}
		if accounts["q"].Total < before {
			t.Errorf("%v GPU-seconds became %v", before, accounts["q"].Total)
		}
	})
}
