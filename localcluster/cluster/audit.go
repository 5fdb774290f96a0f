// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

// auditPolicy records of each request who made it, what for and with which outcome, but no
// contents. A request counts when its response begins: a watch takes minutes to end.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
`

// auditArgs returns the API server's arguments for an audit log; none without one. The log is
// one file, however long it grows.
func auditArgs(l layout, path string) []string {
	if path == "" {
		return nil
	}
	return []string{
		"--audit-policy-file=" + l.auditPolicy(),
		"--audit-log-path=" + path,
		"--audit-log-maxsize=100000",
	}
}
