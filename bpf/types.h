// SPDX-License-Identifier: MIT OR GPL-2.0
//
// The kernel's names of integer types (include/uapi/linux/types.h), which libbpf's headers need:
// the build needs no kernel headers.

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __sum16;
typedef __u32 __wsum;
