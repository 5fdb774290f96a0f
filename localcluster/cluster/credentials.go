// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net"
	"time"

	"falldio.github.io/gpu-controller/localcluster/pki"
)

// firstServiceIP is the address of the Service "kubernetes" in serviceRange.
var firstServiceIP = net.IPv4(10, 0, 0, 1)

// writeCredentials makes all keys, certificates and kubeconfigs.
func writeCredentials(l layout, p ports, now time.Time) error {
	// etcd has an authority of its own: otherwise every user of the cluster could
	// bypass the API server.
	etcdAuthority, err := pki.NewAuthority("localcluster-etcd", now)
	if err != nil {
		return err
	}
	authority, err := pki.NewAuthority("localcluster", now)
	if err != nil {
		return err
	}
	if err := writeAuthorities(l, authority, etcdAuthority); err != nil {
		return err
	}
	if err := writeServerKeys(l, authority, etcdAuthority); err != nil {
		return err
	}
	return writeKubeconfigs(l, p, authority)
}

func writeAuthorities(l layout, authority, etcdAuthority *pki.Authority) error {
	if err := pki.WriteFile(l.pki(pkiClusterAuthority)+".crt", authority.PEM()); err != nil {
		return err
	}
	return pki.WriteFile(l.pki(pkiEtcdAuthority)+".crt", etcdAuthority.PEM())
}

func writeServerKeys(l layout, authority, etcdAuthority *pki.Authority) error {
	pairs := []struct {
		name     string
		issuer   *pki.Authority
		identity pki.Identity
	}{
		{pkiEtcdServer, etcdAuthority, pki.LoopbackServer("etcd")},
		{pkiEtcdClient, etcdAuthority, pki.Identity{CommonName: "kube-apiserver"}},
		{pkiServer, authority, pki.LoopbackServer("localcluster", firstServiceIP)},
		{pkiKubeletClient, authority, pki.KubeletClient},
	}
	for _, pair := range pairs {
		keys, err := pair.issuer.Issue(pair.identity)
		if err != nil {
			return err
		}
		if err := keys.Write(l.pki(pair.name)); err != nil {
			return err
		}
	}
	key, err := pki.NewKey()
	if err != nil {
		return err
	}
	return pki.WriteFile(l.pki(pkiServiceAccountKeys)+".key", key)
}

func writeKubeconfigs(l layout, p ports, authority *pki.Authority) error {
	users := map[string]pki.Identity{
		userAdmin:             pki.Admin,
		userControllerManager: pki.ControllerManager,
		userScheduler:         pki.Scheduler,
		userKWOK:              pki.KWOK,
		userGPUController:     pki.GPUController,
		userGPUScheduler:      pki.GPUScheduler,
	}
	for user, identity := range users {
		keys, err := authority.Issue(identity)
		if err != nil {
			return fmt.Errorf("user %s: %w", user, err)
		}
		config := pki.Kubeconfig("https://"+address(p.apiServer), authority, user, keys)
		if err := pki.WriteKubeconfig(l.userKubeconfig(user), config); err != nil {
			return err
		}
	}
	return nil
}
