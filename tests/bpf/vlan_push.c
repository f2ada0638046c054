// A traffic-control classifier that gives every frame an 802.1Q tag, out of band: the tag is held
// beside the frame, as when a driver is to insert it. VLAN 7, priority 5. It needs no header of the
// kernel or of libbpf.

static long (*const bpf_skb_vlan_push)(void *skb, unsigned short protocol_be, unsigned short tci) = (void *)18;

#define ETH_P_8021Q_BE __builtin_bswap16(0x8100)
#define PRIORITY 5
#define VLAN 7

__attribute__((section("classifier"), used)) int push(void *skb)
{
	bpf_skb_vlan_push(skb, ETH_P_8021Q_BE, PRIORITY << 13 | VLAN);
	return 0; // TC_ACT_OK
}

__attribute__((section("license"), used)) char license_text[] = "GPL";
