package node

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// serverArguments are in the command line of the program that answers for a pod of the lab. Others may be in the
// pod's namespace too: whatever somebody runs there.
var serverArguments = []byte("\x00lab\x00pod\x00")

// server is the program that answers for a pod of the lab. It is no child of ours: the lab started it.
type server struct {
	// ended is closed when it has ended.
	ended chan struct{}
}

// watchServer finds the server in a network namespace and watches it. One that is not there has ended.
func watchServer(netnsPath string) (*server, error) {
	namespace, err := os.Stat(netnsPath)
	if err != nil {
		return nil, fmt.Errorf("looking for a pod's server: %w", err)
	}
	handle, found, err := openServer(namespace)
	if err != nil {
		return nil, fmt.Errorf("looking for the server in %s: %w", netnsPath, err)
	}
	s := &server{ended: make(chan struct{})}
	if !found {
		close(s.ended)
		return s, nil
	}
	go func() {
		defer close(s.ended)
		defer unix.Close(handle)
		// It fails for want of memory only; the server is replaced then.
		_ = awaitEnd(handle)
	}()
	return s, nil
}

func openServer(namespace fs.FileInfo) (handle int, found bool, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, false, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !serves(pid, namespace) {
			continue
		}
		handle, err := unix.PidfdOpen(pid, 0)
		if err == unix.ESRCH {
			continue
		}
		if err != nil {
			return 0, false, err
		}
		// It may have ended before, and its number be another's.
		if serves(pid, namespace) {
			return handle, true, nil
		}
		unix.Close(handle)
	}
	return 0, false, nil
}

// serves says whether a process is the server in the namespace. One that has ended is in none.
func serves(pid int, namespace fs.FileInfo) bool {
	its, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil || !os.SameFile(its, namespace) {
		return false
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.Contains(line, serverArguments)
}
