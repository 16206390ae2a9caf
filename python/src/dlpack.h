/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The structures of the ABI of DLPack 1.0 that a capsule holds. Debian 12 packages DLPack
 * 0.6, which lacks the versioned tensor, and with it the flag for read-only data.
 */
#ifndef HM_PYTHON_DLPACK_H
#define HM_PYTHON_DLPACK_H

#include <stdint.h>

#define DLPACK_MAJOR 1u
#define DLPACK_MINOR 0u
#define DLPACK_CPU 1
#define DLPACK_UINT 1u /* a type code */
#define DLPACK_READ_ONLY 1ull /* a flag */

struct dlpack_device {
	int32_t type;
	int32_t id;
};

struct dlpack_tensor {
	void *data;
	struct dlpack_device device;
	int32_t ndim;
	uint8_t type_code;
	uint8_t type_bits;
	uint16_t type_lanes;
	int64_t *shape; /* items */
	int64_t *strides; /* items; NULL: row by row */
	uint64_t byte_offset;
};

/* In a capsule named "dltensor". */
struct dlpack_managed {
	struct dlpack_tensor tensor;
	void *context;
	void (*deleter)(struct dlpack_managed *self);
};

/* In a capsule named "dltensor_versioned". */
struct dlpack_versioned {
	uint32_t major, minor;
	void *context;
	void (*deleter)(struct dlpack_versioned *self);
	uint64_t flags;
	struct dlpack_tensor tensor;
};

#endif /* HM_PYTHON_DLPACK_H */
