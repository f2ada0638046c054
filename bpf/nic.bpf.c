// SPDX-License-Identifier: MIT OR GPL-2.0
//
// A Linux host that honors PFC: a queueing discipline that holds paused priorities, and the program
// that receives the PFC frames. `sluice nic attach` loads both for one interface; docs/nic.md
// describes them, nic_rules.h has the rules.
//
//   sockets ──▶ sluice_nic_enqueue ─▶ 8 rings of frames ─▶ sluice_nic_dequeue ──▶ interface
//                     ▲ kick                                    │ reads
//                     └──── sluice_nic_pfc ────▶ pauses ◀───────┘
//                           (tc ingress)
//
// The kernel runs enqueue and dequeue one at a time, under the lock of the qdisc. The ingress
// program may run concurrently with them, and on several CPUs: `pauses` has a lock for concurrent
// runs of that program, and dequeue reads single words of `pauses`.
//
// Only enqueue and dequeue may arm the timer of the qdisc, so a pause that ends early must make the
// qdisc run: the PFC frame itself, with a mark, is sent to the interface that it came from, and
// enqueue consumes it.
//
// A frame here is a `struct sk_buff` of any size, including one that the kernel segments afterwards
// (GSO).
//
// The few kernel declarations needed are copied here, so that the build needs no kernel headers.
// Fields are found by name when the programs are loaded, and only in these structures.

#include "types.h"

// include/uapi/linux/bpf.h
enum { BPF_MAP_TYPE_ARRAY = 2 };
struct bpf_spin_lock {
	__u32 val;
};
struct bpf_dynptr {
	__u64 opaque[2];
} __attribute__((aligned(8)));
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#include "nic_rules.h"

#define BY_NAME __attribute__((preserve_access_index))

enum { TC_ACT_OK = 0, TC_ACT_SHOT = 2 };		  // linux/pkt_cls.h
enum { NET_XMIT_SUCCESS = 0, NET_XMIT_DROP = 1 };	  // linux/netdevice.h
enum { PACKET_OTHERHOST = 3 };				  // linux/if_packet.h
enum { EBUSY = 16, ENODEV = 19 };
enum { KICK = 0x5c1ceF0 };

struct net_device {
	int ifindex;
	unsigned int mtu;
} BY_NAME;

struct netdev_queue {
	struct net_device *dev;
} BY_NAME;

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	unsigned int truesize;
	__u32 priority;
	__u32 mark;
	__be16 protocol;
	__be16 vlan_proto;
	__u16 vlan_tci;
	char cb[48];
} BY_NAME;

struct qdisc_skb_cb {
	unsigned int pkt_len;
} BY_NAME;

struct qdisc_skb_head {
	__u32 qlen;
} BY_NAME;

struct gnet_stats_queue {
	__u32 backlog;
	__u32 drops;
	__u32 overlimits;
} BY_NAME;

struct Qdisc {
	__u32 limit;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
	struct netdev_queue *dev_queue;
} BY_NAME;

// Complete, since a kernel function is found by its name and by the kinds of its arguments.
struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
};

struct nlattr;
struct netlink_ext_ack;

// net/sched/bpf_qdisc.c and kernel/bpf/helpers.c; weak, so that the ingress program loads where
// they are missing.
extern void bpf_kfree_skb(struct sk_buff *skb) __ksym __weak;
extern void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __ksym __weak;
extern void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, __u64 expire, __u64 delta_ns) __ksym __weak;
extern void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb) __ksym __weak;
extern int bpf_dynptr_from_skb(struct __sk_buff *skb, __u64 flags, struct bpf_dynptr *ptr) __ksym __weak;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *ptr, __u32 offset, void *buffer, __u32 size) __ksym __weak;

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// Written only by the ingress program.
struct pauses {
	struct bpf_spin_lock lock;
	__u32 reserved;
	struct pause of[PRIORITIES];
};

// Received MAC control frames, regardless of their effect; each counter is incremented atomically,
// on any CPU.
struct received_frames {
	__u64 pfc;
	__u64 pause;
	__u64 malformed;
	__u64 kicks;
};

// One priority's ring in `slots`, and its counters. Indexes count up indefinitely.
struct queue {
	__u64 head;
	__u64 tail;
	__u64 held_bytes; // of the line
	__u64 held_memory_bytes;
	__u64 held_peak_memory_bytes;
	__u64 sent_frames;
	__u64 sent_bytes;
	__u64 dropped_frames;
	__u64 dropped_bytes;
};

// Written only by the qdisc.
struct state {
	struct queue queues[PRIORITIES];
	struct turns turns;
	__u64 is_attached;
	__u64 refused; // qdiscs that were not initialized and are about to be destroyed
	__u64 next_end_ns; // of the pauses of queues that hold frames, as dequeue saw it last
};

#ifndef WITHOUT_QDISC
// clang 14 keeps the tag of a pointer to a typedef, and loses that of one to the structure itself.
typedef struct sk_buff skb_t;

struct slot {
	skb_t __kptr *skb;
};
#endif

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} nic_settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pauses);
} nic_pauses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct received_frames);
} nic_received SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} nic_state SEC(".maps");

// The root qdisc that was replaced, as the request that adds it: only kept here, for as long as the
// interface has the program.
struct replaced {
	__u32 len; // 0: the kernel's default
	__u8 request[1020];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct replaced);
} nic_replaced SEC(".maps");

#ifndef WITHOUT_QDISC
// PRIORITIES rings of settings.slots each; the size is set before loading.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PRIORITIES);
	__type(key, __u32);
	__type(value, struct slot);
} nic_slots SEC(".maps");
#endif

static __always_inline void *only(void *map)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(map, &zero);
}

// ----------------------------------------------------------------------------------------- ingress

// Makes the qdisc run: sends this frame to its own interface with a mark.
static __always_inline void kick(struct __sk_buff *skb, struct received_frames *received, __u32 ifindex)
{
	skb->mark = KICK;
	bpf_clone_redirect(skb, ifindex, 0);
	__sync_fetch_and_add(&received->kicks, 1);
}

// The verifier checks a non-static function separately, once: inlined eight times in a row, its
// branches would be too many for the kernel's verifier. The same applies to the others below.
__noinline int sluice_nic_rx_pfc(__u32 priority, __u32 is_enabled, __u32 quanta, __u64 now)
{
	struct settings *settings = only(&nic_settings);
	struct pauses *pauses = only(&nic_pauses);
	__u64 speed_bps;
	int honored, earlier;

	if (!settings || !pauses || !is_enabled)
		return 0;
	priority &= PRIORITIES - 1;
	honored = settings->no_drop & (1 << priority);
	speed_bps = settings->speed_bps;
	bpf_spin_lock(&pauses->lock);
	earlier = honor_pause(&pauses->of[priority], quanta, honored, speed_bps, now);
	bpf_spin_unlock(&pauses->lock);
	return earlier;
}

// Returns the priorities (bit p) that hold frames.
__noinline int sluice_nic_holding(void)
{
	struct state *state = only(&nic_state);
	int p, mask = 0;

	if (!state)
		return 0;
	for (p = 0; p < PRIORITIES; p++)
		if (state->queues[p].head != state->queues[p].tail)
			mask |= 1 << p;
	return mask;
}

SEC("tc")
int sluice_nic_pfc(struct __sk_buff *skb)
{
	struct settings *settings = only(&nic_settings);
	struct received_frames *received = only(&nic_received);
	struct state *state = only(&nic_state);
	__u8 frame[CONTROL_BYTES] = {};
	struct pfc pfc = {};
	__u32 len, earlier = 0;
	__u64 now;
	int p, what = RECEIVED_MALFORMED;

	if (skb->protocol != bpf_htons(MAC_CONTROL) || skb->vlan_present)
		return TC_ACT_OK;
	// The kernel keeps the maps that a program refers to.
	if (!settings || !received || !state || !only(&nic_replaced))
		return TC_ACT_OK;
	now = bpf_ktime_get_ns();
	len = skb->len;
	if (len >= CONTROL_BYTES)
		len = CONTROL_BYTES;
	// A length that the verifier knows: a shorter frame is at best a PAUSE frame without
	// padding.
	if (len == CONTROL_BYTES && !bpf_skb_load_bytes(skb, 0, frame, CONTROL_BYTES))
		what = read_control(frame, CONTROL_BYTES, &pfc);
	else if (len >= 18 && !bpf_skb_load_bytes(skb, 0, frame, 18))
		what = read_control(frame, 18, &pfc);
	if (what == RECEIVED_PAUSE)
		__sync_fetch_and_add(&received->pause, 1);
	if (what == RECEIVED_MALFORMED)
		__sync_fetch_and_add(&received->malformed, 1);
	if (what != RECEIVED_PFC)
		return TC_ACT_SHOT;

	for (p = 0; p < PRIORITIES; p++)
		earlier |= (sluice_nic_rx_pfc(p, pfc.enable >> p & 1, pfc.quanta[p], now) & 1) << p;

	// The times above must be visible before the queues are examined: enqueue does both in the
	// opposite order, so one of the two sees the other. An atomic operation that returns a
	// value is a full barrier.
	if (__sync_fetch_and_add(&received->pfc, 1) + 1 && state->is_attached && (earlier & sluice_nic_holding()))
		kick(skb, received, settings->ifindex);
	return TC_ACT_SHOT; // a MAC keeps its control frames to itself
}

// ------------------------------------------------------------------------------------------- qdisc

#ifndef WITHOUT_QDISC

static __always_inline __u32 pkt_len(const struct sk_buff *skb)
{
	return ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
}

static __always_inline int classify(struct sk_buff *skb, const struct settings *settings)
{
	int tci = skb->vlan_proto ? skb->vlan_tci : -1;
	__u8 buffer[HEAD_BYTES] = {};
	struct bpf_dynptr data;
	__u8 *head;

	if (settings->trust == TRUST_PRIORITY || (settings->trust == TRUST_DOT1P && tci >= 0))
		return priority_of(settings, buffer, tci, skb->priority) & 7;
	if (bpf_dynptr_from_skb((struct __sk_buff *)skb, 0, &data))
		return settings->port_priority & 7;
	head = bpf_dynptr_slice(&data, 0, buffer, HEAD_BYTES);
	if (!head)
		return settings->port_priority & 7;
	return priority_of(settings, head, tci, skb->priority) & 7;
}

static __always_inline struct slot *slot_at(const struct settings *settings, int priority, __u64 position)
{
	__u32 index = priority * settings->slots + (position & (settings->slots - 1));

	return bpf_map_lookup_elem(&nic_slots, &index);
}

SEC("struct_ops")
int BPF_PROG(sluice_nic_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	struct settings *settings = only(&nic_settings);
	struct state *state = only(&nic_state);
	__u32 bytes, memory_bytes, waiting;
	struct sk_buff *old;
	struct queue *queue;
	struct slot *slot;
	int priority;

	if (skb->protocol == bpf_htons(MAC_CONTROL) && skb->mark == KICK) {
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_SUCCESS;
	}
	if (!settings || !state) { // never
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	priority = classify(skb, settings);
	queue = &state->queues[priority & 7];
	bytes = pkt_len(skb);
	memory_bytes = skb->truesize;
	waiting = queue->tail - queue->head;
	slot = slot_at(settings, priority, queue->tail);
	if (!slot || waiting >= settings->slots || queue->held_memory_bytes + memory_bytes > settings->limit_bytes) {
		queue->dropped_frames++;
		queue->dropped_bytes += bytes;
		sch->qstats.drops++;
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	queue->held_bytes += bytes;
	queue->held_memory_bytes += memory_bytes;
	if (queue->held_memory_bytes > queue->held_peak_memory_bytes)
		queue->held_peak_memory_bytes = queue->held_memory_bytes;
	sch->q.qlen++;
	sch->qstats.backlog += bytes;
	// Published before the exchange, which is a full barrier (see sluice_nic_pfc); the qdisc
	// lock keeps dequeue from taking the frame earlier.
	queue->tail++;
	old = bpf_kptr_xchg(&slot->skb, skb);
	if (old) // never: the slot was free
		bpf_qdisc_skb_drop(old, to_free);
	return NET_XMIT_SUCCESS;
}

// Takes the first frame of a queue out of its ring.
static __always_inline struct sk_buff *take(const struct settings *settings, struct queue *queue, int priority)
{
	struct slot *slot = slot_at(settings, priority, queue->head);
	struct sk_buff *skb;

	if (!slot)
		return 0;
	skb = bpf_kptr_xchg(&slot->skb, 0);
	queue->head++;
	return skb;
}

// Returns the queues (bit p) that hold frames and are not paused, and records when the first pause
// of the others ends. A pause does not outlast the agreement that its priority is no-drop.
__noinline int sluice_nic_ready(__u64 now)
{
	struct settings *settings = only(&nic_settings);
	struct pauses *pauses = only(&nic_pauses);
	struct state *state = only(&nic_state);
	__u64 until, next_end_ns = ~0ULL;
	int p, ready = 0;

	if (!settings || !state || !pauses)
		return 0;
	for (p = 0; p < PRIORITIES; p++) {
		if (state->queues[p].head == state->queues[p].tail)
			continue;
		until = *(volatile __u64 *)&pauses->of[p].until_ns;
		if (until <= now || !(settings->no_drop & (1 << p)))
			ready |= 1 << p;
		else if (until < next_end_ns)
			next_end_ns = until;
	}
	state->next_end_ns = next_end_ns;
	return ready;
}

__noinline int sluice_nic_next(__u32 ready)
{
	struct settings *settings = only(&nic_settings);
	struct state *state = only(&nic_state);

	return settings && state ? next_queue(&state->turns, settings, ready) : 0;
}

// The watchdog must not fire for every frame where a few frames take almost no time.
#define SLACK_NS 20000

SEC("struct_ops")
struct sk_buff *BPF_PROG(sluice_nic_dequeue, struct Qdisc *sch)
{
	struct settings *settings = only(&nic_settings);
	struct state *state = only(&nic_state);
	__u64 now, slack;
	__u32 bytes, ready;
	struct sk_buff *skb;
	struct queue *queue;
	int p;

	if (!settings || !state || !sch->q.qlen)
		return 0;
	now = bpf_ktime_get_ns();
	if (state->turns.free_ns > now) {
		slack = settings->burst_ns / 2 < SLACK_NS ? settings->burst_ns / 2 : SLACK_NS;
		bpf_qdisc_watchdog_schedule(sch, state->turns.free_ns + slack, 0);
		return 0;
	}
	ready = sluice_nic_ready(now);
	if (!ready) {
		if (state->next_end_ns != ~0ULL)
			bpf_qdisc_watchdog_schedule(sch, state->next_end_ns, 0);
		return 0;
	}
	p = sluice_nic_next(ready) & 7;
	queue = &state->queues[p];
	skb = take(settings, queue, p);
	if (!skb)
		return 0;
	bytes = pkt_len(skb);
	queue->held_bytes -= bytes;
	queue->held_memory_bytes -= skb->truesize;
	queue->sent_frames++;
	queue->sent_bytes += bytes;
	charge_queue(&state->turns, p, bytes, queue->head == queue->tail);
	charge_line(&state->turns, settings, bytes, skb->dev->mtu + 14, now);
	sch->q.qlen--;
	sch->qstats.backlog -= bytes;
	bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

SEC("struct_ops")
int BPF_PROG(sluice_nic_init, struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *ack)
{
	struct settings *settings = only(&nic_settings);
	struct state *state = only(&nic_state);

	if (!settings || !state)
		return -ENODEV;
	// One object, one interface: while this kind is registered, a second qdisc that names it
	// must not use the same maps. The kernel also destroys a qdisc that it could not initialize.
	if (sch->dev_queue->dev->ifindex != settings->ifindex || state->is_attached) {
		state->refused++;
		return -EBUSY;
	}
	state->is_attached = 1;
	sch->limit = settings->slots * PRIORITIES;
	return 0;
}

// Frees held frames: one frame per call, queue after queue.
static int free_one(__u32 number, void *context)
{
	struct settings *settings = only(&nic_settings);
	struct state *state = only(&nic_state);
	struct sk_buff *skb;
	int p;

	if (!settings || !state)
		return 1;
	for (p = 0; p < PRIORITIES; p++) {
		struct queue *queue = &state->queues[p];

		if (queue->head == queue->tail)
			continue;
		skb = take(settings, queue, p);
		if (skb)
			bpf_kfree_skb(skb);
		return 0;
	}
	return 1;
}

// The interface goes down, or the qdisc is about to be destroyed.
SEC("struct_ops")
void BPF_PROG(sluice_nic_reset, struct Qdisc *sch)
{
	struct settings *settings = only(&nic_settings);
	struct state *state = only(&nic_state);
	int p;

	if (!settings || !state)
		return;
	bpf_loop(settings->slots * PRIORITIES, free_one, 0, 0);
	for (p = 0; p < PRIORITIES; p++) {
		state->queues[p].held_bytes = 0;
		state->queues[p].held_memory_bytes = 0;
		state->turns.credit[p] = 0;
	}
	state->turns.free_ns = 0;
}

SEC("struct_ops")
void BPF_PROG(sluice_nic_destroy, struct Qdisc *sch)
{
	struct state *state = only(&nic_state);

	if (!state)
		return;
	if (state->refused)
		state->refused--;
	else
		state->is_attached = 0;
}

// include/net/sch_generic.h, as far as it is used here.
struct Qdisc_ops {
	char id[16];
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *ack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
};

SEC(".struct_ops.link")
struct Qdisc_ops sluice_nic = {
	.enqueue = (void *)sluice_nic_enqueue,
	.dequeue = (void *)sluice_nic_dequeue,
	.init = (void *)sluice_nic_init,
	.reset = (void *)sluice_nic_reset,
	.destroy = (void *)sluice_nic_destroy,
	.id = "sluice_nic",
};
#endif
