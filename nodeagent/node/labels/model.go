// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package labels turns what is known of a node's GPUs into the labels and the
// inventory annotation of its Node.
package labels

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

var (
	// vendors are words that tell nothing about the model.
	vendors = regexp.MustCompile(`\b(nvidia|geforce|tesla|graphics device)\b`)
	// others is everything that is neither a letter nor a digit.
	others = regexp.MustCompile(`[^a-z0-9.]+`)
	// series is a word that belongs to the number after it: "RTX 4090" is spoken
	// of as one word.
	series = regexp.MustCompile(`\b(rtx|gtx)-(\d)`)
)

// Model returns the value of the label falldio.com/gpu for a GPU that its vendor
// calls product: in lower case, without the vendor's names, words joined by
// hyphens, RTX and GTX joined to their number. It never changes for a product,
// and the model of a model is the model itself.
//
//	NVIDIA H100 80GB HBM3    h100-80gb-hbm3
//	NVIDIA GeForce RTX 4090  rtx4090
//	Tesla V100-SXM2-16GB     v100-sxm2-16gb
func Model(product string) string {
	model := vendors.ReplaceAllString(strings.ToLower(product), " ")
	model = others.ReplaceAllString(model, "-")
	model = series.ReplaceAllString(strings.Trim(model, "-."), "${1}${2}")
	if len(model) > validation.LabelValueMaxLength {
		model = model[:validation.LabelValueMaxLength]
	}
	return strings.Trim(model, "-.")
}
