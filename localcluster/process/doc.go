// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process runs the processes of a local cluster so that they restart
// when they fail and never outlive their parent.
//
// All children are in one process group, which the janitor leads: a child that
// does nothing but wait for the end of a pipe whose other end only the parent
// holds. However the parent ends, SIGKILL included, the pipe ends with it; the
// janitor then cleans up and kills the whole group, itself too. A group exists
// as long as it has a member, so this can never hit a stranger that got an old
// process id. Because the group is not the terminal's, Ctrl-C reaches only the
// parent, which stops its children in order.
package process
