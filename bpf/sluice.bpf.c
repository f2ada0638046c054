// SPDX-License-Identifier: MIT OR GPL-2.0
//
// The XDP program of a Sluice port: it redirects every frame to the AF_XDP socket of the frame's RX
// queue. Where no socket is bound the frame is dropped (and counted by the driver as an XDP drop),
// never passed to the host's own stack, so that no frame bypasses the switch.
//
// There are two programs: `sluice_xdp`, and `sluice_xdp_vlan`, which first inserts a VLAN tag that
// the sender's stack holds out of band ("tx VLAN offload") where IEEE 802.1Q has it, behind the
// addresses. The latter uses a kernel function that depends on the device, so it is loaded for one
// device only.
//
// The few kernel declarations needed are copied here, so that the build needs no kernel headers.

#include "types.h"

// include/uapi/linux/bpf.h
enum { BPF_MAP_TYPE_XSKMAP = 17 };
enum xdp_action { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };
struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

// net/core/xdp.c: returns 0 and the tag if the frame has one out of band; weak, so that the object
// loads where the function is missing.
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *vlan_proto, __u16 *vlan_tci) __ksym __weak;

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// Sockets by RX queue; the size is set to the number of queues before loading.
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct addresses {
	__u32 a, b, c;
};

struct tag {
	__be16 tpid, tci;
};

SEC("xdp")
int sluice_xdp(struct xdp_md *ctx)
{
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_DROP);
}

// Makes room for 4 bytes, moves the addresses forward and writes the tag behind them. Returns 0, or
// -1 if there was no room.
static __always_inline int insert_tag(struct xdp_md *ctx, __be16 tpid, __u16 tci)
{
	struct addresses *from, *to;
	struct tag *tag;
	void *end;

	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(*tag)))
		return -1;
	to = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	from = (void *)to + sizeof(*tag);
	if ((void *)(from + 1) > end)
		return -1;
	// Each word is read before the write that covers it, 4 bytes lower.
	to->a = from->a;
	to->b = from->b;
	to->c = from->c;
	tag = (void *)(to + 1);
	tag->tpid = tpid;
	tag->tci = bpf_htons(tci);
	return 0;
}

SEC("xdp")
int sluice_xdp_vlan(struct xdp_md *ctx)
{
	__be16 tpid;
	__u16 tci;

	if (bpf_xdp_metadata_rx_vlan_tag(ctx, &tpid, &tci) == 0 && insert_tag(ctx, tpid, tci))
		return XDP_DROP;
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_DROP);
}
