// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// CheckLibc returns an error if a program needs a newer glibc than the lock has: one that was
// linked on a newer system may.
func CheckLibc(program string, l *Lock) error {
	needed, err := neededLibc(program)
	if err != nil {
		return err
	}
	for i := range l.Packages {
		if p := &l.Packages[i]; p.Name == "libc6" {
			return compareLibc(needed, p.Version)
		}
	}
	return errors.New("the lock has no package libc6")
}

// compareLibc compares the version that a program needs with that of the package,
// "2.36-9+deb12u14".
func compareLibc(needed *version.Version, packaged string) error {
	upstream, _, _ := strings.Cut(packaged, "-")
	available, err := version.ParseGeneric(upstream)
	if err != nil {
		return err
	}
	if available.LessThan(needed) {
		return fmt.Errorf("the program needs glibc %v, the image has %v: build it on Debian 12, or take a newer release into hack/release/debian/lock.yaml", needed, available)
	}
	return nil
}

// neededLibc returns the newest version of glibc from which a program takes a symbol; 0.0 if
// it takes none.
func neededLibc(program string) (*version.Version, error) {
	file, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	symbols, err := file.ImportedSymbols()
	if err != nil {
		return nil, err
	}
	newest := version.MajorMinor(0, 0)
	for i := range symbols {
		number, found := strings.CutPrefix(symbols[i].Version, "GLIBC_")
		if !found {
			continue
		}
		v, err := version.ParseGeneric(number)
		if err != nil {
			continue // GLIBC_PRIVATE
		}
		if newest.LessThan(v) {
			newest = v
		}
	}
	return newest, nil
}
