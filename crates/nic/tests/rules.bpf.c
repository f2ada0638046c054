// SPDX-License-Identifier: MIT OR GPL-2.0
//
// Runs each rule of nic_rules.h alone, on the state that the test has written to the map `world`.
// The result is written back to the map.

#include "types.h"

enum { BPF_MAP_TYPE_ARRAY = 2 };
struct __sk_buff;

#include <bpf/bpf_helpers.h>

#include "nic_rules.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct world {
	struct settings settings;
	struct pause pause;
	struct turns turns;
	__u64 now;
	__s64 result;
	__s32 tci;
	__u32 skb_priority;
	__u32 ready;
	__u32 bytes;
	__u32 mtu_bytes;
	__u32 quanta;
	__u32 flag;
	__u32 reserved;
	__u8 frame[40];
	struct pfc pfc;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct world);
} world SEC(".maps");

static __always_inline struct world *here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&world, &zero);
}

SEC("tc")
int control(struct __sk_buff *skb)
{
	struct world *w = here();

	if (w)
		w->result = read_control(w->frame, w->bytes, &w->pfc);
	return 0;
}

SEC("tc")
int received(struct __sk_buff *skb)
{
	struct world *w = here();

	if (w)
		w->result = honor_pause(&w->pause, w->quanta, w->flag, w->settings.speed_bps, w->now);
	return 0;
}

SEC("tc")
int priority(struct __sk_buff *skb)
{
	struct world *w = here();

	if (w)
		w->result = priority_of(&w->settings, w->frame, w->tci, w->skb_priority);
	return 0;
}

SEC("tc")
int next(struct __sk_buff *skb)
{
	struct world *w = here();

	if (w)
		w->result = next_queue(&w->turns, &w->settings, w->ready);
	return 0;
}

SEC("tc")
int sent(struct __sk_buff *skb)
{
	struct world *w = here();

	if (w) {
		charge_queue(&w->turns, w->result, w->bytes, w->flag);
		charge_line(&w->turns, &w->settings, w->bytes, w->mtu_bytes, w->now);
	}
	return 0;
}
