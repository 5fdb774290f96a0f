// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpumodel

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestNormalize(t *testing.T) {
	t.Parallel()
	for product, want := range map[string]string{
		"NVIDIA H100 80GB HBM3":                 "h100-80gb-hbm3",
		"NVIDIA H100 PCIe":                      "h100-pcie",
		"NVIDIA H200":                           "h200",
		"NVIDIA B200":                           "b200",
		"NVIDIA GB200":                          "gb200",
		"NVIDIA GH200 480GB":                    "gh200-480gb",
		"NVIDIA A100-SXM4-40GB":                 "a100-sxm4-40gb",
		"NVIDIA A100 80GB PCIe":                 "a100-80gb-pcie",
		"Tesla V100-SXM2-16GB":                  "v100-sxm2-16gb",
		"Tesla T4":                              "t4",
		"NVIDIA L40S":                           "l40s",
		"NVIDIA GeForce RTX 4090":               "rtx4090",
		"NVIDIA GeForce RTX 3080 Ti":            "rtx3080-ti",
		"GeForce GTX 1080":                      "gtx1080",
		"NVIDIA GeForce RTX 4090 Laptop GPU":    "rtx4090-laptop-gpu",
		"NVIDIA RTX 6000 Ada Generation":        "rtx6000-ada-generation",
		"NVIDIA RTX A6000":                      "rtx-a6000",
		"NVIDIA TITAN RTX":                      "titan-rtx",
		"Quadro RTX 8000":                       "quadro-rtx8000",
		"NVIDIA RTX PRO 6000 Blackwell (96 GB)": "rtx-pro-6000-blackwell-96-gb",
		"NVIDIA-H100-80GB-HBM3":                 "h100-80gb-hbm3", // as in nvidia.com/gpu.product
		"NVIDIA-GeForce-RTX-4090":               "rtx4090",
		"Tesla-V100-SXM2-16GB":                  "v100-sxm2-16gb",
		"":                                      "",
		"NVIDIA":                                "",
	} {
		if got := Normalize(product); got != want {
			t.Errorf("%q is %q, want %q", product, got, want)
		}
	}
}

func FuzzNormalize(f *testing.F) {
	f.Add("NVIDIA GeForce RTX 4090")
	f.Add("-..RTX--5-")
	f.Fuzz(func(t *testing.T, product string) {
		model := Normalize(product)
		if problems := validation.IsValidLabelValue(model); len(problems) > 0 {
			t.Errorf("%q gives %q, which is no label's value: %v", product, model, problems)
		}
		if again := Normalize(model); again != model {
			t.Errorf("%q gives %q, and that %q", product, model, again)
		}
	})
}
