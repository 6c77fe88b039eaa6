package scratch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The parts of /proc that container runtimes make read-only: what is set there is the machine's.
var readOnlyProc = []string{"bus", "fs", "irq", "sys", "sysrq-trigger"}

// devices are all that a container has.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// enterRoot makes the root folder and moves into it. It runs in a mount namespace of its own.
func enterRoot(spec *Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts to ourselves: %w", err)
	}
	root := spec.Root
	if err := mount("tmpfs", root, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := mountKernel(root, spec.Privileged); err != nil {
		return err
	}
	// The outer ones first: a volume may lie inside another one.
	mounts := slices.Clone(spec.Mounts)
	slices.SortStableFunc(mounts, func(a, b Mount) int { return depth(a.Target) - depth(b.Target) })
	for _, m := range mounts {
		if err := bind(m.Source, filepath.Join(root, filepath.Clean("/"+m.Target)), m.ReadOnly); err != nil {
			return err
		}
	}
	// The old root on top of the new one, and away with it.
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if !spec.ReadOnlyRoot {
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_RDONLY, "mode=755"); err != nil {
		return fmt.Errorf("making the root read-only: %w", err)
	}
	return nil
}

func depth(target string) int { return strings.Count(filepath.Clean("/"+target), "/") }

// mountKernel makes /proc, /sys and /dev. /sys shows the network namespace in which it is mounted.
func mountKernel(root string, privileged bool) error {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	proc, sys, dev := filepath.Join(root, "proc"), filepath.Join(root, "sys"), filepath.Join(root, "dev")
	for _, folder := range []string{proc, sys, dev} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
	}
	if err := mount("proc", proc, "proc", safe, ""); err != nil {
		return err
	}
	sysFlags := uintptr(safe | unix.MS_RDONLY)
	if privileged {
		sysFlags = safe
	}
	if err := mount("sysfs", sys, "sysfs", sysFlags, ""); err != nil {
		return err
	}
	if !privileged {
		for _, part := range readOnlyProc {
			path := filepath.Join(proc, part)
			if _, err := os.Stat(path); err != nil {
				continue // this kernel has none
			}
			if err := bind(path, path, true); err != nil {
				return err
			}
		}
	}
	if err := mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	for _, device := range devices {
		if err := bind("/dev/"+device, filepath.Join(dev, device), false); err != nil {
			return err
		}
	}
	for link, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, filepath.Join(dev, link)); err != nil {
			return err
		}
	}
	return nil
}

// bind shows a file or folder at another place, which is made if need be.
func bind(source, target string, readOnly bool) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if _, missing := os.Lstat(target); missing != nil {
		if err = os.MkdirAll(filepath.Dir(target), 0o755); err == nil {
			err = os.WriteFile(target, nil, 0o644)
		}
	}
	if err != nil {
		return err
	}
	if err := mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if !readOnly {
		return nil
	}
	// A bind mount takes its flags at a second call only, and keeps those of its source that are not its to drop.
	var have unix.Statfs_t
	if err := unix.Statfs(target, &have); err != nil {
		return fmt.Errorf("statfs %s: %w", target, err)
	}
	kept := uintptr(have.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME)
	return mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|kept, "")
}

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mounting %s%s at %s: %w", kind, source, target, err)
	}
	return nil
}
