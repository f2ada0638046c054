/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The rules of a host that honors PFC, independent of the kernel: a frame's priority, the request
 * of a MAC control frame, the next queue, and when the line is free. `nic.bpf.c` applies them;
 * `crates/nic/tests` tests each separately.
 *
 * Rule: a PFC frame is received if it is for 01-80-C2-00-00-01, bears no tag, has opcode 0x0101 and
 * all eight times. For each priority of the class-enable vector (its high byte is reserved) a time
 * other than 0 pauses the priority until that many quanta of 512 bit times have passed; a later
 * frame replaces the time, longer or shorter; time 0 ends the pause. Only no-drop priorities are
 * honored; the others are counted.
 * Source: IEEE 802.3-2022 clause 31, Annexes 31B and 31D; IEEE 802.1Q-2022 36.1.3.3.
 *
 * Rule: classification is as on the switch (crates/switch/src/forwarding/classifier.rs). Trust
 * dot1p: the PCP of the outermost tag; trust DSCP: a map from the DSCP of IPv4 or IPv6 behind up to
 * two tags; trust priority: the socket's priority, if it is 0 to 7. A frame without the trusted
 * field has the port's priority.
 *
 * Rule: deficit round robin among the queues that hold frames and are not paused. Each turn is
 * worth a quantum of bytes; the excess of a frame is owed, and a queue that runs empty keeps no
 * credit (M. Shreedhar and G. Varghese, "Efficient Fair Queueing using Deficit Round Robin", 1995,
 * in the form that charges afterwards). The alternative is strict priority: the highest priority
 * first.
 *
 * Rule: a frame occupies the line for its bytes and `overhead_bytes` more, at the speed of the
 * port. A line that was idle, or was not served in time, catches up by at most `burst_ns`.
 */
#ifndef SLUICE_NIC_RULES_H
#define SLUICE_NIC_RULES_H

enum { PRIORITIES = 8, DSCPS = 64 };
enum { CONTROL_BYTES = 34 }; /* of a PFC frame, up to its last time */
enum { HEAD_BYTES = 24 };    /* addresses, two tags, the first two bytes of an IP header */

#define MAC_CONTROL 0x8808
#define OPCODE_PAUSE 0x0001
#define OPCODE_PFC 0x0101

enum trust { TRUST_DOT1P, TRUST_DSCP, TRUST_PRIORITY };
enum order { ORDER_DRR, ORDER_STRICT };

/* Settings that user space writes before the programs are attached; `no_drop` also afterwards. */
struct settings {
	__u64 speed_bps;
	__u64 burst_ns;
	__u64 limit_bytes; /* kernel memory that the frames of one priority may hold */
	__u32 slots;	   /* frames of one priority, a power of two */
	__u32 ifindex;
	__u32 overhead_bytes;
	__u32 quantum_bytes;
	__u8 no_drop; /* bit p: priority p is honored */
	__u8 trust;
	__u8 order;
	__u8 port_priority;
	__u8 made_clsact; /* read by user space when it detaches */
	__u8 reserved[3];
	__u8 dscp_to_dot1p[DSCPS];
};

/* One priority's pause state as received. Times are of CLOCK_MONOTONIC, in nanoseconds. */
struct pause {
	__u64 until_ns; /* 0: not paused */
	__u64 since_ns;
	__u64 paused_ns; /* of pauses that are over */
	__u64 episodes;
	__u64 xoff_frames;
	__u64 xon_frames;
};

/* Kinds of MAC control frames. */
enum received { RECEIVED_PFC, RECEIVED_PAUSE, RECEIVED_MALFORMED };

struct pfc {
	__u16 quanta[PRIORITIES];
	__u8 enable;
};

/* The scheduler and the line. */
struct turns {
	__s64 credit[PRIORITIES];
	__u64 free_ns; /* when the line has carried what was sent */
	__u32 turn;
	__u32 reserved;
};

static __always_inline __u16 be16(const __u8 *bytes)
{
	return bytes[0] << 8 | bytes[1];
}

/* Returns the duration of `quanta` quanta of 512 bit times, in nanoseconds, rounded up. */
static __always_inline __u64 quanta_ns(__u16 quanta, __u64 speed_bps)
{
	/* At most 3.4e16: no overflow. */
	return ((__u64)quanta * 512 * 1000000000ULL + speed_bps - 1) / speed_bps;
}

/* Parses a MAC control frame of which `len` bytes are in `frame`. */
static __always_inline int read_control(const __u8 *frame, __u32 len, struct pfc *pfc)
{
	static const __u8 group[6] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01};
	__u16 opcode;
	int i;

	for (i = 0; i < 6; i++)
		if (frame[i] != group[i])
			return RECEIVED_MALFORMED;
	if (len < 18)
		return RECEIVED_MALFORMED;
	opcode = be16(frame + 14);
	if (opcode == OPCODE_PAUSE)
		return RECEIVED_PAUSE;
	if (opcode != OPCODE_PFC || len < CONTROL_BYTES)
		return RECEIVED_MALFORMED;
	pfc->enable = frame[17];
	for (i = 0; i < PRIORITIES; i++)
		pfc->quanta[i] = be16(frame + 18 + 2 * i);
	return RECEIVED_PFC;
}

/* Ends the pause, at `at_ns`. */
static __always_inline void end_pause(struct pause *pause, __u64 at_ns)
{
	if (!pause->until_ns)
		return;
	pause->paused_ns += at_ns - pause->since_ns;
	pause->until_ns = 0;
}

/* Applies one priority of a PFC frame. True if the priority may send earlier than before. */
static __always_inline int honor_pause(struct pause *pause, __u16 quanta, int honored, __u64 speed_bps, __u64 now)
{
	__u64 until, before;

	if (pause->until_ns && pause->until_ns <= now)
		end_pause(pause, pause->until_ns);
	if (quanta)
		pause->xoff_frames++;
	else
		pause->xon_frames++;
	if (!honored)
		return 0;
	before = pause->until_ns;
	if (!quanta) {
		end_pause(pause, now);
		return before != 0;
	}
	until = now + quanta_ns(quanta, speed_bps);
	if (!before) {
		pause->since_ns = now;
		pause->episodes++;
	}
	pause->until_ns = until;
	return until < before;
}

/* Returns the DSCP of the packet with this ethertype and its header at `ip`, or -1 if not IP. */
static __always_inline int dscp_of(__u16 ethertype, const __u8 *ip)
{
	if (ethertype == 0x0800 && ip[0] >> 4 == 4)
		return ip[1] >> 2;
	if (ethertype == 0x86dd && ip[0] >> 4 == 6)
		return (be16(ip) >> 6) & 63;
	return -1;
}

static __always_inline int is_tag(__u16 ethertype)
{
	return ethertype == 0x8100 || ethertype == 0x88a8;
}

/*
 * The priority of a frame that begins with the HEAD_BYTES bytes `head`. `tci` is the tag that the
 * kernel holds out of band, or -1; that tag is the outermost.
 */
static __always_inline int priority_of(const struct settings *settings, const __u8 *head, int tci, __u32 skb_priority)
{
	__u16 type = be16(head + 12);
	int dscp;

	if (settings->trust == TRUST_PRIORITY)
		return skb_priority < PRIORITIES ? skb_priority : settings->port_priority;
	if (settings->trust == TRUST_DOT1P) {
		if (tci >= 0)
			return (tci >> 13) & 7;
		return is_tag(type) ? head[14] >> 5 : settings->port_priority;
	}
	if (!is_tag(type))
		dscp = dscp_of(type, head + 14);
	else if (!is_tag(be16(head + 16)))
		dscp = dscp_of(be16(head + 16), head + 18);
	else if (tci < 0)
		dscp = dscp_of(be16(head + 20), head + 22);
	else
		dscp = -1; /* three tags */
	return dscp < 0 ? settings->port_priority : settings->dscp_to_dot1p[dscp & 63] & 7;
}

/* Returns the queue to serve of the non-empty set `ready` (bit p: has frames and may send). */
static __always_inline int next_queue(struct turns *turns, const struct settings *settings, __u32 ready)
{
	__s64 quantum = settings->quantum_bytes, rounds = -1;
	int i, queue;

	if (settings->order == ORDER_STRICT) {
		for (i = PRIORITIES - 1; i > 0; i--)
			if (ready & (1 << i))
				break;
		return i;
	}
	queue = turns->turn & 7;
	if (ready & (1 << queue) && turns->credit[queue] > 0)
		return queue;
	for (i = 1; i <= PRIORITIES; i++) {
		queue = (turns->turn + i) & 7;
		if (!(ready & (1 << queue)))
			continue;
		turns->credit[queue] += quantum;
		if (turns->credit[queue] > 0) {
			turns->turn = queue;
			return queue;
		}
	}
	/*
	 * All owe more than a quantum, as after frames of 64 kB: adds at once the number of rounds
	 * until the first of them has credit.
	 */
	for (i = 0; i < PRIORITIES; i++) {
		if (!(ready & (1 << i)))
			continue;
		/* Signed division is not in every BPF instruction set; what is owed is not negative. */
		__u64 owed = -turns->credit[i];
		__s64 needed = owed / (__u64)(quantum > 0 ? quantum : 1) + 1;

		if (rounds < 0 || needed < rounds)
			rounds = needed;
	}
	for (i = 0; i < PRIORITIES; i++)
		if (ready & (1 << i))
			turns->credit[i] += rounds * quantum;
	for (i = 1; i <= PRIORITIES; i++) {
		queue = (turns->turn + i) & 7;
		if (ready & (1 << queue) && turns->credit[queue] > 0)
			break;
	}
	turns->turn = queue;
	return queue;
}

/* Charges `queue` for a frame of `bytes` that left; `is_empty` if the queue is empty now. */
static __always_inline void charge_queue(struct turns *turns, int queue, __u32 bytes, int is_empty)
{
	__s64 *credit = &turns->credit[queue & 7];

	*credit -= bytes;
	if (is_empty && *credit > 0)
		*credit = 0;
}

/*
 * Charges the line for a frame of `bytes` that is sent at `now`, and updates when the line is free
 * again. The frame may be several segments of at most `mtu_bytes` each with its Ethernet header.
 */
static __always_inline void charge_line(struct turns *turns, const struct settings *settings, __u32 bytes,
					__u32 mtu_bytes, __u64 now)
{
	__u64 earliest = now > settings->burst_ns ? now - settings->burst_ns : 0;
	__u64 start = turns->free_ns > earliest ? turns->free_ns : earliest;
	__u64 segments = mtu_bytes ? (bytes + mtu_bytes - 1) / mtu_bytes : 1;
	__u64 bits = 8 * (bytes + segments * settings->overhead_bytes);

	turns->free_ns = start + bits * 1000000000ULL / settings->speed_bps;
}

#endif
