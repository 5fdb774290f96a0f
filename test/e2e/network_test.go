// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestPodsFollowTheFastNetwork makes one of two nodes slow, and then the other one.
// The second one is made so slow that the first measurement, which happens within half
// a minute, outweighs the moving average.
func TestPodsFollowTheFastNetwork(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	network := filepath.Join(s.cluster.Dir, "network.yaml")
	write := func(rules ...string) {
		t.Helper()
		if err := os.WriteFile(network, []byte(strings.Join(rules, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`- {node: rtx4090-0, target: "https://data*", duration: 40ms}`, `- {node: rtx4090-1, target: "https://data*", duration: 4ms}`)
	s.waitUntilPodsGoTo("rtx4090-1")
	write(`- {node: rtx4090-0, target: "https://data*", duration: 1ms}`, `- {node: rtx4090-1, target: "https://data*", fails: true}`)
	s.waitUntilPodsGoTo("rtx4090-0")
}

// waitUntilPodsGoTo waits until so many Pods with a target in a row were bound to the
// node that it can't be by chance.
func (s *suite) waitUntilPodsGoTo(node string) {
	s.Helper()
	const enough = 20
	var landed []string
	inARow := 0
	s.eventually(fmt.Sprintf("%d Pods in a row go to node %s", enough, node), func() (bool, string) {
		landed = append(landed, s.whereAPodGoes())
		if landed[len(landed)-1] == node {
			inARow++
		} else {
			inARow = 0
		}
		return inARow == enough, fmt.Sprintf("they went to %v", landed)
	})
	s.Logf("%s has all Pods after %d others", node, len(landed)-enough)
}

// whereAPodGoes creates a Pod with a target, returns the node that it was bound to, and
// deletes it.
func (s *suite) whereAPodGoes() string {
	s.Helper()
	pods := s.cluster.kube.CoreV1().Pods(s.namespace)
	pod, err := pods.Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "reader-", Annotations: map[string]string{v1.AnnotationNetworkTarget: "https://data.example.com/health"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "gpu-scheduler-network",
			NodeSelector:  map[string]string{v1.LabelGPUModel: "rtx4090"},
			Containers: []corev1.Container{{
				Name: "x", Image: "x",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{v1.ResourceGPU: resource.MustParse("1")}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	var node string
	s.eventually("Pod "+pod.Name+" has a node", func() (bool, string) {
		got, err := pods.Get(s.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		node = got.Spec.NodeName
		return node != "", fmt.Sprintf("%+v", got.Status.Conditions)
	})
	if err := pods.Delete(s.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		s.Fatal(err)
	}
	s.eventually("Pod "+pod.Name+" is gone", func() (bool, string) {
		_, err := pods.Get(s.Context(), pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	return node
}
