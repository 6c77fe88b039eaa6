package node

import (
	"net/netip"
	"testing"
)

func TestAddressesAreGivenOnce(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("198.19.1.0/27"))
	if !a.take(netip.MustParseAddr("198.19.1.17")) || a.take(netip.MustParseAddr("198.19.1.17")) {
		t.Fatal("an address is taken once")
	}
	if a.take(netip.MustParseAddr("198.19.2.17")) {
		t.Fatal("an address of another node is not ours to take")
	}
	seen := map[netip.Addr]bool{netip.MustParseAddr("198.19.1.17"): true}
	// .16 to .30 without .17: the last one, .31, is the broadcast address.
	for range 14 {
		address, err := a.give()
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] || address.As4()[3] < 16 || address.As4()[3] > 30 {
			t.Fatalf("%s", address)
		}
		seen[address] = true
	}
	if address, err := a.give(); err == nil {
		t.Fatalf("the range is used up, and %s was given", address)
	}
	a.free(netip.MustParseAddr("198.19.1.20"))
	if address, err := a.give(); err != nil || address != netip.MustParseAddr("198.19.1.20") {
		t.Fatalf("%s, %v", address, err)
	}
}

// A client may still remember whose an address was.
func TestAnAddressThatWasGivenBackRests(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("198.19.1.0/24"))
	first, _ := a.give()
	a.free(first)
	if second, _ := a.give(); second == first {
		t.Fatalf("%s was given again at once", first)
	}
}
