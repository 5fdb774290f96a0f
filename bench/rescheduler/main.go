// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"time"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
)

func main() {
	d := os.Args[1]
	nodes, err := dataset.ReadNodes(d + "/" + dataset.NodesFile)
	if err != nil {
		panic(err)
	}
	pods, err := dataset.ReadPods(d + "/openb_pod_list_default.csv")
	if err != nil {
		panic(err)
	}
	t := time.Now()
	s, err := churn(nodes, pods, 20000, 42)
	if err != nil {
		panic(err)
	}
	o, err := newObjects(nodes)
	if err != nil {
		panic(err)
	}
	fmt.Println("churned", time.Since(t), len(s.jobs), s.used())
	for _, x := range []struct {
		name   string
		s      system
		frozen bool
	}{{"nothing", nothing{}, false}, {"ours", &ours{objects: o}, false}, {"ours frozen", nil, true}, {"ours fewest frozen", nil, true}, {"hnu50", &highNodeUtilization{0.5}, false}, {"hnu20", &highNodeUtilization{0.2}, false}, {"recreate", &recreateAll{map[string]bool{}}, false}} {
		t := time.Now()
		if x.frozen {
			o, _ := newObjects(nodes)
			x.s = &ours{objects: o, fewest: x.name != "ours frozen"}
		}
		r, err := simulate(s, x.s, x.frozen)
		if err != nil {
			panic(err)
		}
		base, _ := simulate(s, nothing{}, true)
		fmt.Println("bound moves", bound(base.site, r.startedLater(), func(*job) float64 { return 1 }), "bound cost", bound(base.site, r.startedLater(), func(j *job) float64 {
			return 60 + base.unsaved(j)*float64(j.shape.Percent())/100
		}), "our cost", r.lost+60*float64(r.moved))
		fmt.Printf("%s: waited %d started %d at %.0f moved %d distinct %d gpus %d lost %.1f GPUh broken %d homeless %d; %d plans max %v; took %v\n", x.name, len(r.waited), len(r.startedLater()), r.now, r.moved, len(r.evicted), r.regained(), r.lost/3600, len(r.broken), r.homeless(), len(r.times), func() (m time.Duration) {
			for _, t := range r.times {
				m = max(m, t)
			}
			return
		}(), time.Since(t))
	}
}
