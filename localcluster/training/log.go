// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package training

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

const (
	// reportSteps is after how many steps the program writes a line.
	reportSteps = 10
	// reportsKept is how many of these lines are kept: a kubelet drops the oldest, too.
	reportsKept = 10_000
	// epochs is how many epochs a program has that ends, epochSteps how many steps an epoch of one that does not.
	epochs, epochSteps = 10, 600
	// The loss falls by lossGain, to about lossLeft.
	lossGain, lossLeft = 2.4, 0.3
)

// Log is the log of a container.
type Log struct {
	*Run
	// trains is true for the container that does the work of a task, or has GPUs. Others write nothing in between.
	trains bool
	// opening and closing are those lines.
	opening, closing []string
}

// Line is a line of a log.
type Line struct {
	At   time.Time
	Text string
}

// Read is how much of a log was read.
type Read struct {
	opening, closing bool
	reports, saves   int
}

// LogOf returns the log of a container that has started, whose program does what run says.
func LogOf(pod *corev1.Pod, container string, run *Run) *Log {
	l := &Log{Run: run}
	devices := len(Devices(pod, container))
	l.trains = podfacts.RoleOf(pod, container) == podfacts.Work && (pod.Labels[v1.LabelTask] != "" || devices > 0)
	holding := ""
	if devices > 0 {
		holding = ", holding " + plural.Count(devices, "GPU")
	}
	l.opening = []string{fmt.Sprintf("simulated on node %s%s: %s", pod.Spec.NodeName, holding, commandOf(Container(pod, container)))}
	switch {
	case !l.trains:
	case run.first > 0:
		l.opening = append(l.opening, fmt.Sprintf("resumed from checkpoint at step %d", run.first))
	default:
		l.opening = append(l.opening, "starting at step 0")
	}
	if status := podfacts.StatusOf(pod, container); status != nil && status.State.Terminated != nil {
		l.closing = []string{l.ending(int(status.State.Terminated.ExitCode))}
	}
	return l
}

// Container returns a container of a Pod by its name, an empty one if there is none.
func Container(pod *corev1.Pod, name string) *corev1.Container {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if containers[i].Name == name {
				return &containers[i]
			}
		}
	}
	return &corev1.Container{}
}

func commandOf(c *corev1.Container) string {
	return cmp.Or(strings.Join(slices.Concat(c.Command, c.Args), " "), "the program of image "+c.Image)
}

// ending returns what a container writes last before it ends by itself.
func (l *Log) ending(exitCode int) string {
	switch {
	case !l.trains:
		return fmt.Sprintf("ended with exit code %d", exitCode)
	case exitCode != 0:
		return fmt.Sprintf("failed at step %d with exit code %d", l.Step(l.end), exitCode)
	default:
		return fmt.Sprintf("finished at step %d with loss %.4f", l.Step(l.end), l.loss(l.Step(l.end)))
	}
}

// Stop ends a log whose Pod was stopped, and had time to save its work or not.
func (l *Log) Stop(at time.Time, saves bool) {
	l.end = at
	if !l.trains {
		l.closing = []string{"stopped"}
		return
	}
	if saves {
		l.closing = []string{saved(l.Step(at))}
	}
	l.closing = append(l.closing, fmt.Sprintf("stopped at step %d", l.Step(at)))
}

// Lines returns what was written to a log until a time and was not read yet, and how much is read then.
func (l *Log) Lines(before Read, until time.Time) (lines []Line, after Read) {
	after = before
	if l.Ended() {
		until = l.end
	}
	if !before.opening {
		lines = append(lines, at(l.start, l.opening)...)
		after.opening = true
	}
	if l.trains {
		lines = append(lines, l.reports(before.reports, l.reportsBy(until))...)
		for _, at := range l.saves[min(before.saves, len(l.saves)):] {
			lines = append(lines, Line{at, saved(l.Step(at))})
		}
		after.reports, after.saves = max(before.reports, l.reportsBy(until)), len(l.saves)
		slices.SortStableFunc(lines, func(a, b Line) int { return a.At.Compare(b.At) })
	}
	if l.Ended() && !before.closing {
		lines = append(lines, at(l.end, l.closing)...)
		after.closing = true
	}
	return lines, after
}

func at(at time.Time, texts []string) (lines []Line) {
	for _, text := range texts {
		lines = append(lines, Line{at, text})
	}
	return lines
}

func saved(step int) string { return fmt.Sprintf("checkpoint saved at step %d", step) }

// reportsBy returns how many lines about steps there are at a time.
func (l *Log) reportsBy(at time.Time) int { return (l.Step(at) - l.first) / reportSteps }

// reports returns the lines about steps after some, up to others.
func (l *Log) reports(after, upTo int) (lines []Line) {
	for n := max(after, upTo-reportsKept) + 1; n <= upTo; n++ {
		steps := n * reportSteps
		lines = append(lines, Line{l.start.Add(time.Duration(steps) * StepTime), l.report(l.first + steps)})
	}
	return lines
}

// report returns the line about a step.
func (l *Log) report(step int) string {
	if l.total == 0 {
		return fmt.Sprintf("epoch %d  step %d  loss %.4f", (step-1)/epochSteps+1, step, l.loss(step))
	}
	return fmt.Sprintf("epoch %d/%d  step %d/%d  loss %.4f", (step-1)*epochs/l.total+1, epochs, step, l.total, l.loss(step))
}

// loss returns the loss after a step. It depends on nothing else: a program that is resumed goes on with it.
func (l *Log) loss(step int) float64 {
	const noise = 0.02
	progress := float64(step) / float64(cmp.Or(l.total, step+epochs*epochSteps))
	return lossLeft + lossGain*math.Exp(-4*progress) + noise*math.Sin(float64(step))
}
