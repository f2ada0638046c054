// SPDX-License-Identifier: MIT OR GPL-2.0
//
// For tests: on the egress of a host's veth, tags every frame with VLAN 5, priority 3, and leaves
// the tag out of band (in the skb), as a VLAN device with tx VLAN offload passes frames to a veth.

#include "types.h"

struct __sk_buff;

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("tc")
int vlan_push(struct __sk_buff *skb)
{
	bpf_skb_vlan_push(skb, bpf_htons(0x8100), 3 << 13 | 5);
	return 0; // TC_ACT_OK
}
