// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenOf returns a token of a service account of the suite's namespace.
func (s *suite) tokenOf(account string) string {
	s.Helper()
	token, err := s.cluster.kube.CoreV1().ServiceAccounts(s.namespace).CreateToken(s.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return token.Status.Token
}

// kubeconfigOf writes a kubeconfig with the rights of a service account of the suite's namespace.
func (s *suite) kubeconfigOf(account string) string {
	s.Helper()
	config, err := clientcmd.LoadFromFile(s.cluster.Kubeconfig())
	if err != nil {
		s.Fatal(err)
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: s.tokenOf(account)}
	}
	path := filepath.Join(s.TempDir(), account+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		s.Fatal(err)
	}
	return path
}

// apply has kubectl apply manifests.
func (s *suite) apply(args ...string) {
	s.Helper()
	if output, err := s.cluster.kubectl(s.Context(), append([]string{"apply", "--server-side", "--force-conflicts"}, args...)...); err != nil {
		s.Fatalf("kubectl apply %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

var servedAt = regexp.MustCompile(`"?address"?[=:]"(127\.0\.0\.1:[0-9]+)"`)

// address returns where a controller with --metrics-bind-address=127.0.0.1:0 serves.
func (c *controller) address() (address string) {
	c.s.Helper()
	c.s.eventually("the controller says where it serves metrics", func() (bool, string) {
		found := servedAt.FindStringSubmatch(c.log.String())
		if found == nil {
			return false, "it does not"
		}
		address = found[1]
		return true, ""
	})
	return address
}

// get sends a request with a token, if it is not empty, and returns the status and the text of the answer.
func get(ctx context.Context, client *http.Client, url, token string) (status int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), errors.Join(err, answer.Body.Close())
}
