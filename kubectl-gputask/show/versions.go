// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import "fmt"

// Program is one of our programs in the cluster.
type Program struct {
	Name, Namespace, Image string
	Ready, Desired         int32
}

// Versions writes the versions of this program and of the cluster, if it was asked.
func Versions(p *Page, client, server string, programs []Program) {
	var f pairs
	f.add("Client Version", client)
	f.addIf("Server Version", server)
	f.write(p)
	if len(programs) == 0 {
		return
	}
	p.Printf("\n")
	t := newTable("COMPONENT", "NAMESPACE", "READY", "IMAGE")
	for i := range programs {
		one := &programs[i]
		t.add(one.Name, one.Namespace, fmt.Sprintf("%d/%d", one.Ready, one.Desired), one.Image)
	}
	t.write(p)
}
