package node

import (
	"fmt"
	"net/netip"
	"sync"
)

// reserved is how many addresses at the beginning of a node's range are not given to Pods: .0 is the range,
// .1 the node, and .2 to .15 are for the pods that the lab itself has.
const reserved = 16

// addresses gives the addresses of a node's range to its Pods.
type addresses struct {
	mutex  sync.Mutex
	within netip.Prefix
	taken  map[netip.Addr]bool
	// next is where the search begins: an address that was given back rests as long as possible, as a client
	// may still remember whose it was.
	next netip.Addr
}

func newAddresses(within netip.Prefix) *addresses {
	a := &addresses{within: within.Masked(), taken: map[netip.Addr]bool{}}
	a.next = a.first()
	return a
}

// take marks an address that is in use. It says whether it was free, and one of ours to give.
func (a *addresses) take(address netip.Addr) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if !a.within.Contains(address) || a.taken[address] {
		return false
	}
	a.taken[address] = true
	return true
}

// give finds a free one and marks it.
func (a *addresses) give() (netip.Addr, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	begin := a.next
	for {
		candidate := a.next
		// The last address of the range is its broadcast address.
		if a.next = candidate.Next(); !a.within.Contains(a.next.Next()) {
			a.next = a.first()
		}
		if a.within.Contains(candidate) && !a.taken[candidate] {
			a.taken[candidate] = true
			return candidate, nil
		}
		if a.next == begin {
			return netip.Addr{}, fmt.Errorf("no address is free in %s: delete Pods of this node", a.within)
		}
	}
}

func (a *addresses) free(address netip.Addr) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	delete(a.taken, address)
}

func (a *addresses) first() netip.Addr {
	address := a.within.Addr()
	for range reserved {
		address = address.Next()
	}
	return address
}
