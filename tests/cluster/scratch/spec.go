// Package scratch runs a program as a container that was built FROM scratch would run it: with a root folder of
// its own, where only the program, its volumes and what the kernel offers are to be seen; with its own process
// numbers, in a given network namespace, and with a container's capabilities.
//
// Not here: control groups, seccomp filters and user namespaces.
//
// A program is started by way of this one: the child makes the root folder in a mount namespace of its own, gives
// up what it must not keep, and becomes the program.
package scratch

// command is the argument that the child is started with. A program that imports this package leaves it alone.
const command = "scratch-container"

// Spec is what to run, and where.
type Spec struct {
	Hostname string
	// Root is an empty folder of this machine, on which the root folder is put for the program alone.
	Root   string
	Mounts []Mount

	Argv        []string
	Environment []string
	// Directory is where the program begins; empty is the root folder.
	Directory string

	UID, GID int
	Groups   []int
	// Capabilities are names without "CAP_", and all that the program can ever have.
	Capabilities    []string
	NoNewPrivileges bool
	ReadOnlyRoot    bool
	// Privileged leaves the kernel's own folders writable.
	Privileged bool

	// Enter is a process of a running container, to run one more program in it. Then nothing is mounted.
	Enter int
}

// Mount is a file or folder of this machine that the program sees.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}
