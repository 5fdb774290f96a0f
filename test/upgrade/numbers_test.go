// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// oldTask is a task as clients read it of before amounts could be numbers.
type oldTask struct {
	Spec struct {
		GPUAmount string `json:"gpu-amount"`
	} `json:"spec"`
}

// create creates a task from its text, and returns what the API server has made of it.
func (s *scene) create(namespace string, text []byte, options metav1.CreateOptions) ([]byte, error) {
	request := s.tasks.FalldioV1().RESTClient().Post().Namespace(namespace).Resource("gputasks").SetHeader("Content-Type", "application/json").Body(text)
	for _, value := range options.DryRun {
		request.Param("dryRun", value)
	}
	return request.Do(s.Context()).Raw()
}

// inNumbers returns the text of a task with one GPU, whose amount is a number.
func (s *scene) inNumbers(task *v1.GPUTask) []byte {
	s.Helper()
	task = task.DeepCopy()
	task.APIVersion, task.Kind = v1.TaskKind().ToAPIVersionAndKind()
	text, err := json.Marshal(task)
	if err != nil {
		s.Fatal(err)
	}
	return []byte(strings.Replace(string(text), `"gpu-amount":"1"`, `"gpu-amount":1`, 1))
}

// installNumbers installs what has numbers stored as text, if a version has that, and waits until API servers do so.
func (s *scene) installNumbers(v *version) {
	s.Helper()
	if _, err := os.Stat(v.manifests("numbers")); err != nil {
		return
	}
	s.kubectl("apply", "--server-side", "--force-conflicts", "--kustomize="+v.manifests("numbers"))
	text := s.inNumbers(newTask(metav1.NamespaceDefault, "numbers", "1"))
	s.eventually("numbers are stored as text", func() (bool, string) {
		created, err := s.create(metav1.NamespaceDefault, text, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false, err.Error()
		}
		err = json.Unmarshal(created, &oldTask{})
		return err == nil, fmt.Sprint(err)
	})
}

// submitInNumbers creates a task whose amount is a number, as soon as the manifests take it, and checks that clients of
// before can read all tasks.
func (s *scene) submitInNumbers(stage int) []job {
	s.Helper()
	task := ending(newTask(comers, fmt.Sprintf("numbers-%d", stage), "1"), "0")
	task.Spec.GPU = modelNew
	_, err := s.create(comers, s.inNumbers(task), metav1.CreateOptions{})
	if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "must be of type string") {
		return nil // the old manifests
	}
	if err != nil {
		s.Fatal(err)
	}
	text, err := s.tasks.FalldioV1().RESTClient().Get().Resource("gputasks").Do(s.Context()).Raw()
	if err != nil {
		s.Fatal(err)
	}
	var list struct {
		Items []oldTask `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		s.Errorf("a client of before can't read the tasks: %v", err)
	}
	return []job{stays(task, v1.PhaseSucceeded)}
}
