// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// The program in the images of the tests: a small one.
package main

func main() {}
