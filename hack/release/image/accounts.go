// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import "falldio.github.io/gpu-controller/hack/release/archive"

// Accounts returns the files that give the users of the images names, and a folder for temporary
// files for those who mount one there.
func Accounts() []archive.File {
	const readable, sticky = 0o644, 0o1777
	return []archive.File{
		{Path: "etc/passwd", Mode: readable, Data: []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")},
		{Path: "etc/group", Mode: readable, Data: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{Path: "etc/nsswitch.conf", Mode: readable, Data: []byte("hosts: files dns\n")},
		{Path: "tmp", Mode: sticky, Folder: true},
	}
}
