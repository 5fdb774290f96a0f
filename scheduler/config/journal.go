// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// JournalArgs are where the last decisions are recorded.
type JournalArgs struct {
	// Directory is where the files are, as an absolute path. It is created if needed, and only for this scheduler.
	Directory string `json:"directory"`
	// MaxMegabytes bounds the files together, in MiB.
	MaxMegabytes int `json:"maxMegabytes,omitempty"`
	// Port is where the journal is served, on the address of the secure port, to those who may read it there; 0 is
	// nowhere.
	Port *int `json:"port,omitempty"`
}

const (
	defaultJournalMegabytes = 256
	defaultJournalPort      = 10261
	maxPort                 = 65535
	maxJournalMegabytes     = 1 << 20
)

// setDefaults sets what is not given.
func (j *JournalArgs) setDefaults() {
	if j.MaxMegabytes == 0 {
		j.MaxMegabytes = defaultJournalMegabytes
	}
	if j.Port == nil {
		j.Port = new(defaultJournalPort)
	}
}

func (j *JournalArgs) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case j.Directory == "":
		errs = append(errs, field.Required(path.Child("directory"), "where the journal is written"))
	case !filepath.IsAbs(j.Directory):
		errs = append(errs, field.Invalid(path.Child("directory"), j.Directory, "must be an absolute path"))
	}
	if j.MaxMegabytes < 1 || j.MaxMegabytes > maxJournalMegabytes {
		errs = append(errs, field.Invalid(path.Child("maxMegabytes"), j.MaxMegabytes, "must be from 1 to 1048576"))
	}
	if *j.Port < 0 || *j.Port > maxPort {
		errs = append(errs, field.Invalid(path.Child("port"), *j.Port, "must be from 0 to 65535"))
	}
	return errs
}
