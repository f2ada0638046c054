// SPDX-License-Identifier: MIT OR GPL-2.0
//
// The ingress program of nic.bpf.c alone: a kernel without BPF qdiscs refuses even the types of the
// rest.

#define WITHOUT_QDISC
#include "nic.bpf.c"
