package scratch

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// names of the kernel's capabilities, in the order of their numbers.
var names = strings.Fields(`
	CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
	NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
	SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
	MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)

// DefaultCapabilities are what container runtimes give to a program that asks for nothing.
var DefaultCapabilities = strings.Fields(`
	CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_RAW SYS_CHROOT MKNOD AUDIT_WRITE
	SETFCAP`)

// AllCapabilities are what there is.
func AllCapabilities() []string { return slices.Clone(names) }

// IsCapability knows the names.
func IsCapability(name string) bool { return slices.Contains(names, name) }

// mask is the set as the kernel has it.
func mask(capabilities []string) (uint64, error) {
	var mask uint64
	for _, name := range capabilities {
		at := slices.Index(names, name)
		if at < 0 {
			return 0, fmt.Errorf("%s is no capability", name)
		}
		mask |= 1 << at
	}
	return mask, nil
}

// lastCapability is this kernel's: an older one knows fewer than we do.
func lastCapability() (int, error) {
	text, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// bound takes away for good, from the calling thread and what it becomes, what is not in the mask.
func bound(mask uint64, last int) error {
	for capability := range last + 1 {
		if mask&(1<<capability) == 0 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0); err != nil {
				return fmt.Errorf("dropping capability %d: %w", capability, err)
			}
		}
	}
	return nil
}

// hold leaves the calling thread with what is in the mask and in effect, and nothing to inherit.
func hold(mask uint64, last int) error {
	mask &= 1<<(last+1) - 1
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Effective: uint32(mask), Permitted: uint32(mask)},
		{Effective: uint32(mask >> 32), Permitted: uint32(mask >> 32)},
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("setting capabilities: %w", err)
	}
	return nil
}
