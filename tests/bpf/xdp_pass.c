// An XDP program that another program has attached to an interface.

__attribute__((section("xdp"), used)) int pass(void *context)
{
	return 2; // XDP_PASS
}

__attribute__((section("license"), used)) char license_text[] = "GPL";
