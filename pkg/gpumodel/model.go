// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpumodel names models of GPUs, in the form of the label falldio.com/gpu of Nodes.
package gpumodel

import (
	"regexp"
	"strings"
)

// maxLength is the length of a label's value.
const maxLength = 63

var (
	// vendors matches words that do not identify the model.
	vendors = regexp.MustCompile(`\b(nvidia|geforce|tesla|graphics device)\b`)
	// others matches everything but letters, digits and dots.
	others = regexp.MustCompile(`[^a-z0-9.]+`)
	// series matches a prefix that is joined to the number after it, as in "RTX 4090".
	series = regexp.MustCompile(`\b(rtx|gtx)-(\d)`)
)

// Normalize returns the value of the label falldio.com/gpu for the vendor's name of a product: in
// lower case, without the vendor's names, words joined by hyphens, RTX and GTX joined to
// their number. It must never change for a product, and Normalize(Normalize(p)) is
// Normalize(p).
//
//	NVIDIA H100 80GB HBM3    h100-80gb-hbm3
//	NVIDIA GeForce RTX 4090  rtx4090
//	Tesla V100-SXM2-16GB     v100-sxm2-16gb
func Normalize(product string) string {
	model := vendors.ReplaceAllString(strings.ToLower(product), " ")
	model = others.ReplaceAllString(model, "-")
	model = series.ReplaceAllString(strings.Trim(model, "-."), "${1}${2}")
	if len(model) > maxLength {
		model = model[:maxLength]
	}
	return strings.Trim(model, "-.")
}
