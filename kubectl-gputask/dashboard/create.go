// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"net/http"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/kubectl-gputask/whatif"
)

// created is the answer to a request that has created a task.
type created struct {
	done
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// createTask creates the task of a manifest with the viewer's rights.
func (s *Server) createTask(w http.ResponseWriter, r *http.Request, viewer *access.Viewer) (*created, error) {
	manifests, err := readManifests(w, r, viewer)
	if err != nil {
		return nil, err
	}
	if len(manifests.Tasks) > 1 || len(manifests.Skipped) > 0 {
		return nil, failed(http.StatusUnprocessableEntity, "The text has more in it than one task, which is all that is created here: kubectl create -f takes all of it.")
	}
	task, err := whatif.Create(r.Context(), viewer.Clients, manifests.Tasks[0])
	if err != nil {
		return nil, err
	}
	return &created{done{"The task " + task.Name + " was created."}, task.Namespace, task.Name}, nil
}

// readManifests reads the tasks in a request. Those without a namespace get that of the viewer.
func readManifests(w http.ResponseWriter, r *http.Request, viewer *access.Viewer) (*whatif.Manifests, error) {
	text, err := body(w, r, maxManifests)
	if err != nil {
		return nil, err
	}
	manifests, err := whatif.Parse(bytes.NewReader(text), "the text")
	if err == nil {
		err = manifests.OrNone("the text")
	}
	if err != nil {
		return nil, err
	}
	for _, manifest := range manifests.Tasks {
		if manifest.Namespace == "" {
			manifest.Namespace = viewer.Clients.Namespace
		}
	}
	return manifests, nil
}
