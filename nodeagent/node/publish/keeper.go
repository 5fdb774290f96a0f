// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"os"

	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	"falldio.github.io/gpu-controller/pkg/durable"
)

// Keeper keeps the inventory in a file on the node, as it is in the Node's annotation: for an agent
// that starts while the API server does not answer.
type Keeper struct {
	path    string
	options labels.Options
	kept    string
}

// NewKeeper returns a Keeper that has not kept anything yet.
func NewKeeper(path string, options labels.Options) *Keeper {
	return &Keeper{path: path, options: options}
}

// Run keeps the inventory whenever it changes, until ctx ends.
func (k *Keeper) Run(ctx context.Context, gpus GPUs) {
	var problem error
	for {
		changed, before := gpus.Changed(), problem
		if problem = k.keep(gpus.Snapshot()); problem != nil && before == nil {
			klog.FromContext(ctx).Error(problem, "The health of the GPUs can't be kept on the node; it is on the Node only until that works")
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func (k *Keeper) keep(snapshot *gpu.Snapshot) error {
	if len(snapshot.Devices) == 0 {
		return nil
	}
	list := labels.Inventory(snapshot, k.options)
	text, err := list.String()
	if err != nil || text == k.kept {
		return err
	}
	if err := durable.Replace(k.path, []byte(text), 0o600); err != nil {
		k.kept = ""
		_ = os.Remove(k.path) // it would not know what has broken since
		return err
	}
	k.kept = text
	return nil
}

// Histories returns what View.Histories would, as it was kept last. The error is os.ErrNotExist if
// nothing was.
func (k *Keeper) Histories() (map[string]gpu.History, error) {
	text, err := os.ReadFile(k.path)
	if err != nil {
		return nil, err
	}
	return historiesIn(string(text))
}
