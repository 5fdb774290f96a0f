package main

import (
	"fmt"
	"os"
	"time"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
)

func main() {
	d := os.Args[1]
	nodes, _ := dataset.ReadNodes(d + "/" + dataset.NodesFile)
	pods, _ := dataset.ReadPods(d + "/openb_pod_list_default.csv")
	for seed := range int64(3) {
		s, err := churn(nodes, pods, 20000, 42+seed)
		if err != nil {
			panic(err)
		}
		for _, fewest := range []bool{true, false} {
			t := time.Now()
			c, err := compareSmall(s, 100, fewest, 1)
			fmt.Println("small", fewest, c, err, time.Since(t))
		}
		base, _ := simulate(s, demand(), nothing{}, true)
		for _, fewest := range []bool{true, false} {
			o, _ := newObjects(nodes)
			t := time.Now()
			r, err := simulate(s, demand(), &ours{objects: o, fewest: fewest}, true)
			if err != nil {
				panic(err)
			}
			cost := func(*job) float64 { return 1 }
			our := float64(r.moved)
			if !fewest {
				cost = func(j *job) float64 { return 60 + base.unsaved(j)*float64(j.shape.Percent())/100 }
				our = r.lostFirst + 60*float64(r.moved)
			}
			b := bound(base.site, r.startedLater(), cost)
			fmt.Printf("seed %d fewest %v: waited %d started %d moved %d; ours %.0f bound %.0f = %.1f %%; took %v\n", seed, fewest, len(r.waited), len(r.startedLater()), r.moved, our, b, 100*b/our, time.Since(t))
		}
	}
}
