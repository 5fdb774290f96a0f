// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package stages

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"text/template"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Config is what the stages and KWOK's own configuration depend on.
type Config struct {
	// PodDuration is how long Pods of GPUTasks run without AnnotationDuration.
	PodDuration time.Duration
	// Nodes is how many nodes KWOK simulates.
	Nodes int
	// ServerAddress is the address of KWOK's health checks.
	ServerAddress string
	// NodeSelector is the label selector of the nodes that KWOK simulates.
	NodeSelector string
}

//go:embed templates/*.yaml
var templates embed.FS

// The stages themselves contain templates, which KWOK executes with {{ }}.
const leftDelimiter, rightDelimiter = "[[", "]]"

// Render returns KWOK's configuration file: its options and all stages.
func Render(config Config) ([]byte, error) {
	if config.PodDuration <= 0 {
		return nil, fmt.Errorf("the Pods' default duration must be greater than 0, it is %v", config.PodDuration)
	}
	entries, err := templates.ReadDir("templates")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, entry := range entries {
		out.WriteString("---\n")
		if err := render(&out, path.Join("templates", entry.Name()), values(config)); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

func render(out *bytes.Buffer, name string, values map[string]any) error {
	text, err := templates.ReadFile(name)
	if err != nil {
		return err
	}
	parsed, err := template.New(name).Delims(leftDelimiter, rightDelimiter).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return err
	}
	return parsed.Execute(out, values)
}

// values is the data that the templates are executed with.
func values(config Config) map[string]any {
	return map[string]any{
		"PodDuration": config.PodDuration, "ServerAddress": config.ServerAddress, "NodeSelector": config.NodeSelector,
		"LeaseSeconds": int(LeaseDuration(config.Nodes).Seconds()),
		"Duration":     AnnotationDuration, "Forever": DurationForever,
		"ExitCode": AnnotationExitCode, "FailAttempts": AnnotationFailAttempts,
		"FinishAt": AnnotationFinishAt, "NotReady": AnnotationNotReady,
		"WellFormed": wellFormed(), "Refused": onNode(AnnotationRefusedBy), "Stuck": onNode(AnnotationStuckOn),
		"Refusal": AnnotationRefusal, "DefaultRefusal": DefaultRefusal, "Refusals": refusals,
		"StuckIn": AnnotationStuckIn, "StuckInMount": StuckInMount, "StuckInImage": StuckInImage,
		"StuckOn": AnnotationStuckOn, "StuckFor": AnnotationStuckFor, "StuckUntil": AnnotationStuckUntil,
		"Saving": saving(), "CheckpointTime": AnnotationCheckpointTime, "Checkpoints": AnnotationCheckpoints, "LastCheckpoint": v1.AnnotationLastCheckpoint,
		"LabelTask": v1.LabelTask, "LabelAttempt": v1.LabelAttempt,
	}
}

// saving returns a jq expression for whether the program of a Pod saves its work: it was asked to, and has not done so
// since. Times in UTC are in the order of their texts.
func saving() string {
	return fmt.Sprintf(`.metadata.annotations // {} | .[%q] != null and .[%q] != %q and (.[%q] // "") > (.[%q] // "")`,
		v1.AnnotationCheckpointTimeout, AnnotationCheckpointTime, DurationForever, v1.AnnotationCheckpointRequested, v1.AnnotationLastCheckpoint)
}
