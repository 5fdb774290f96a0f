// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	privateFile      = 0o600
	privateDirectory = 0o700

	// contextName names the cluster and the context in kubeconfigs.
	contextName = "localcluster"
)

// Write writes the certificate to <path>.crt and the key to <path>.key.
func (p KeyPair) Write(path string) error {
	if err := WriteFile(path+".crt", p.Certificate); err != nil {
		return err
	}
	return WriteFile(path+".key", p.Key)
}

// WriteFile writes a file that only its owner can read, and its folder.
func WriteFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), privateDirectory); err != nil {
		return err
	}
	return os.WriteFile(path, data, privateFile)
}

// Kubeconfig returns the kubeconfig of one user for one API server. It embeds the
// certificates, so the file can be copied.
func Kubeconfig(server string, authority *Authority, user string, pair KeyPair) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority.PEM()}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.Certificate, ClientKeyData: pair.Key}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: user}
	config.CurrentContext = contextName
	return config
}

// WriteKubeconfig writes the file atomically: readers never see a part of it.
func WriteKubeconfig(path string, config *clientcmdapi.Config) error {
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	temporary := path + ".new"
	if err := WriteFile(temporary, data); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return os.Rename(temporary, path)
}
