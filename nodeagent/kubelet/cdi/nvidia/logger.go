// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvidia

import (
	"fmt"

	"k8s.io/klog/v2"
)

// toolkitLogger lets NVIDIA's library log through ours. It warns of each file that the
// driver may have and does not, so that its warnings are for high verbosities only.
type toolkitLogger struct{ logger klog.Logger }

// detailed is the verbosity for what NVIDIA's library logs, short of errors.
const detailed = 4

func (l toolkitLogger) Debugf(format string, args ...any) { l.detail(format, args) }

func (l toolkitLogger) Tracef(format string, args ...any) { l.detail(format, args) }

func (l toolkitLogger) Infof(format string, args ...any) { l.detail(format, args) }

func (l toolkitLogger) Warningf(format string, args ...any) { l.detail(format, args) }

func (l toolkitLogger) Errorf(format string, args ...any) {
	l.logger.Error(nil, "NVIDIA's Container Toolkit: "+fmt.Sprintf(format, args...))
}

func (l toolkitLogger) detail(format string, args []any) {
	l.logger.V(detailed).Info("NVIDIA's Container Toolkit: " + fmt.Sprintf(format, args...))
}
