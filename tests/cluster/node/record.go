package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// record is what the stand-in must know of a Pod after it was started again, also if the Pod is gone from the
// API by then. It is in the Pod's folder.
type record struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Member is the Pod's name in the lab, Address its address; both are empty for one in the node's network.
	Member  string     `json:"member,omitempty"`
	Address netip.Addr `json:"address,omitzero"`
	// Serving: the lab's pod was made completely.
	Serving bool `json:"serving,omitempty"`
	// Processes are the containers' that run, by their names.
	Processes map[string]processID `json:"processes,omitempty"`
}

// processID tells a process from a later one of the same number.
type processID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

const recordFile = "pod.json"

func (c Config) podFolder(uid types.UID) string {
	return filepath.Join(c.Directory, c.Name, "pods", string(uid))
}

func (c Config) writeRecord(uid types.UID, r record) error {
	folder := c.podFolder(uid)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	bytes, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// A rename, as a crash must not leave half of it.
	temporary := filepath.Join(folder, recordFile+".new")
	if err := os.WriteFile(temporary, bytes, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(folder, recordFile))
}

func (c Config) readRecord(uid types.UID) (record, error) {
	var r record
	bytes, err := os.ReadFile(filepath.Join(c.podFolder(uid), recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(bytes, &r)
}

// recorded lists the Pods that have a folder.
func (c Config) recorded() ([]types.UID, error) {
	entries, err := os.ReadDir(filepath.Join(c.Directory, c.Name, "pods"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var uids []types.UID
	for _, entry := range entries {
		uids = append(uids, types.UID(entry.Name()))
	}
	return uids, nil
}

// identify describes a running process.
func identify(pid int) (processID, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processID{}, err
	}
	// The name in parentheses may hold anything; the fields after it are numbered from 3, the start is 22.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return processID{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	return processID{pid, start}, err
}

// runs says whether it still does.
func (id processID) runs() bool {
	now, err := identify(id.PID)
	return err == nil && now == id
}

// end kills a process of an earlier stand-in and waits for its end.
func (id processID) end() error {
	handle, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return nil // it has ended
	}
	defer unix.Close(handle)
	if !id.runs() {
		return nil // it has ended, and its number is another's
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("ending process %d: %w", id.PID, err)
	}
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
