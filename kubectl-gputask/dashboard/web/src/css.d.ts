// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

declare module "*.css";
