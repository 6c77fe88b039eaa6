package scratch

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The child's files beside the three usual ones.
const (
	specFD  = 3
	errorFD = 4
)

// The child takes over before the packages of Kubernetes are set up, for which it has no use: it takes 7 ms of a
// processor then, and 56 ms afterwards, at every exec probe. Packages are set up in the order of their paths, each
// after those that it needs: hence the module's name, which comes before theirs.
func init() {
	if len(os.Args) > 1 && os.Args[1] == command {
		child()
	}
}

// child becomes the program, or says on errorFD why not.
func child() {
	// Namespaces and capabilities are this thread's, and it is this thread that becomes the program.
	runtime.LockOSThread()
	complaints := os.NewFile(errorFD, "complaints")
	err := become()
	fmt.Fprint(complaints, err)
	os.Exit(1)
}

func become() error {
	unix.CloseOnExec(errorFD)
	file := os.NewFile(specFD, "specification")
	var spec Spec
	err := json.NewDecoder(file).Decode(&spec)
	file.Close()
	if err != nil {
		return fmt.Errorf("reading what to run: %w", err)
	}
	bounding, err := mask(spec.Capabilities)
	if err != nil {
		return err
	}
	last, err := lastCapability()
	if err != nil {
		return err
	}
	if spec.Enter != 0 {
		err = enter(spec.Enter)
	} else {
		err = enterRoot(&spec)
		if err == nil {
			err = unix.Sethostname([]byte(spec.Hostname))
		}
	}
	if err != nil {
		return err
	}
	if spec.Directory != "" {
		if err := os.Chdir(spec.Directory); err != nil {
			return fmt.Errorf("workingDir: %w", err)
		}
	}
	if err := os.Setenv("PATH", variable(spec.Environment, "PATH")); err != nil {
		return err
	}
	program, err := exec.LookPath(spec.Argv[0])
	if err != nil {
		return fmt.Errorf("the container has no program %q: %w", spec.Argv[0], err)
	}
	if err := giveUp(&spec, bounding, last); err != nil {
		return err
	}
	unix.Umask(0o022)
	// Whoever started the stand-in may have left files open in it, which no container would see.
	if err := unix.CloseRange(specFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("closing files: %w", err)
	}
	return fmt.Errorf("running %s: %w", program, syscall.Exec(program, spec.Argv, spec.Environment))
}

// enter moves into the mount namespace and the root folder of a running container. They are two things: the first
// root folder of a mount namespace is what the machine started with.
func enter(pid int) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return err
	}
	defer namespace.Close()
	root, err := os.Open(fmt.Sprintf("/proc/%d/root", pid))
	if err != nil {
		return err
	}
	defer root.Close()
	// A thread that shares its root folder with others cannot move.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("entering the container: %w", err)
	}
	if err := root.Chdir(); err != nil {
		return err
	}
	return unix.Chroot(".")
}

// giveUp leaves this thread with what the program may have.
func giveUp(spec *Spec, bounding uint64, last int) error {
	if err := bound(bounding, last); err != nil {
		return err
	}
	if err := syscall.Setgroups(spec.Groups); err != nil {
		return fmt.Errorf("supplementalGroups: %w", err)
	}
	if err := syscall.Setgid(spec.GID); err != nil {
		return fmt.Errorf("runAsGroup: %w", err)
	}
	if err := syscall.Setuid(spec.UID); err != nil {
		return fmt.Errorf("runAsUser: %w", err)
	}
	// Another user than root has lost all by now.
	if spec.UID == 0 {
		if err := hold(bounding, last); err != nil {
			return err
		}
	}
	if spec.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("allowPrivilegeEscalation: %w", err)
		}
	}
	return nil
}

func variable(environment []string, name string) string {
	for _, pair := range environment {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}
