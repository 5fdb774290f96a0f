// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process runs the processes of a local cluster so that they restart
// when they fail and never outlive their parent.
//
// All children are in one process group, which the janitor leads: a child that
// only waits for EOF on a pipe whose other end the parent alone holds. However
// the parent ends, SIGKILL included, the pipe is closed; the janitor then cleans
// up and kills the whole group, itself included. A group exists as long as it
// has a member, so this can never hit an unrelated process that reuses an old
// process id. Because the group is not the terminal's foreground group, Ctrl-C
// reaches only the parent, which stops its children in order.
package process
