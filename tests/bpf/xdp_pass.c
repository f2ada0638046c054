// An XDP program that somebody else has put on an interface.

__attribute__((section("xdp"), used)) int pass(void *context)
{
	return 2; // XDP_PASS
}

__attribute__((section("license"), used)) char license_text[] = "GPL";
