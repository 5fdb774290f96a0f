// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// A stand-in for the libnvidia-ml.so.1 of a very old driver: it has one GPU and
// next to no functions. The environment variable FAKE_NVML_INIT is what nvmlInit
// returns, VERSION is the driver's. With FABRIC it has a function of a later one.

#include <stdlib.h>
#include <string.h>

typedef struct {
	unsigned long long total, free, used;
} memory;

static int initialized;

int nvmlInit(void) {
	const char *wanted = getenv("FAKE_NVML_INIT");
	int result = wanted ? atoi(wanted) : 0;
	if (result == 0) {
		initialized++;
	}
	return result;
}

int nvmlShutdown(void) {
	if (initialized == 0) {
		return 1;
	}
	initialized--;
	return 0;
}

const char *nvmlErrorString(int result) {
	return result == 9 ? "Driver Not Loaded" : "Another Error";
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
	strncpy(version, VERSION, length);
	return 0;
}

int nvmlDeviceGetCount(unsigned int *count) {
	*count = 1;
	return 0;
}

int nvmlDeviceGetHandleByIndex(unsigned int index, void **device) {
	*device = &initialized;
	return index == 0 ? 0 : 2;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int length) {
	strncpy(uuid, "GPU-old", length);
	return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, memory *info) {
	info->total = 1000;
	info->free = 400;
	info->used = 600;
	return 0;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *temperature) {
	*temperature = 51;
	return 0;
}

#ifdef FABRIC

// The second version of the structure. The caller says which version it expects.
typedef struct {
	unsigned int version;
	unsigned char cluster[16];
	int status;
	unsigned int clique;
	unsigned char state;
	unsigned int health;
} fabric;

int nvmlDeviceGetGpuFabricInfoV(void *device, fabric *info) {
	if (info->version != (sizeof(fabric) | 2 << 24)) {
		return 25; // ARGUMENT_VERSION_MISMATCH
	}
	info->state = 3; // completed
	info->status = 0;
	return 0;
}

#endif
