// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboard serves the page in a browser that shows the cluster, the queue and the tasks, live. The cluster is
// watched once, however many viewers there are (feed.go); what they see are rows of package rows, and changes of them,
// from package live. Who may see them is decided by package access, and what is changed is changed with the rights of
// the viewer. The page itself is in folder web.
package dashboard
