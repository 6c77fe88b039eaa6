package scratch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"signpost.test/cluster/netns"
)

// lingering is how long output is awaited from what a command left running.
const lingering = 100 * time.Millisecond

// Process is the first program of a container. When it ends, so does all that it started.
type Process struct {
	spec    *Spec
	netns   string
	command *exec.Cmd
	exited  chan struct{}
}

// Start runs the program in a container of its own, within a network namespace. It returns when the program has
// begun.
func Start(spec *Spec, netnsPath string, output *os.File) (*Process, error) {
	p := &Process{spec: spec, netns: netnsPath, exited: make(chan struct{})}
	p.command = exec.Command("/proc/self/exe", Command)
	p.command.Stdout, p.command.Stderr = output, output
	p.command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Setsid:     true,
	}
	var begun error
	err := netns.Do(netnsPath, func() (err error) {
		begun, err = begin(p.command, spec)
		return err
	})
	if err != nil {
		return nil, err
	}
	if begun != nil {
		p.command.Wait()
		return nil, begun
	}
	go func() {
		p.command.Wait()
		close(p.exited)
	}()
	return p, nil
}

// begin starts the child, and waits until it is the program. The first error is why it did not become it.
func begin(command *exec.Cmd, spec *Spec) (notBegun, err error) {
	specR, specW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer specR.Close()
	defer specW.Close()
	errorR, errorW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer errorR.Close()
	defer errorW.Close()
	command.ExtraFiles = []*os.File{specR, errorW}
	if err := command.Start(); err != nil {
		return nil, err
	}
	errorW.Close()
	specR.Close()
	if err := json.NewEncoder(specW).Encode(spec); err != nil {
		return fmt.Errorf("telling the child what to run: %w", err), nil
	}
	specW.Close()
	// The pipe closes when the child has become the program.
	complaint, err := io.ReadAll(errorR)
	if err == nil && len(complaint) > 0 {
		err = errors.New(string(complaint))
	}
	return err, nil
}

// PID is the program's number on this machine.
func (p *Process) PID() int { return p.command.Process.Pid }

// Signal signals it; one that has ended hears nothing.
func (p *Process) Signal(signal syscall.Signal) {
	p.command.Process.Signal(signal)
}

// Exited is closed when the program has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitCode is the program's, or 128 and the signal that ended it. It is known once it has ended.
func (p *Process) ExitCode() int {
	status := p.command.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// Exec runs one more program in the container and returns what it printed.
func (p *Process) Exec(ctx context.Context, argv []string) ([]byte, error) {
	spec := *p.spec
	spec.Argv, spec.Enter = argv, fmt.Sprintf("/proc/%d/ns/mnt", p.PID())
	command := exec.CommandContext(ctx, "/proc/self/exe", Command)
	command.WaitDelay = lingering
	var output output
	command.Stdout, command.Stderr = &output, &output
	var begun error
	err := netns.Do(p.netns, func() error {
		if err := joinPIDs(p.PID()); err != nil {
			return err
		}
		var err error
		begun, err = begin(command, &spec)
		return err
	})
	if err != nil {
		return nil, err
	}
	waited := command.Wait()
	if begun != nil {
		return nil, begun
	}
	return output.bytes, waited
}

// joinPIDs puts what this thread starts among the processes of the container.
func joinPIDs(pid int) error {
	file, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Setns(int(file.Fd()), unix.CLONE_NEWPID)
}

// output keeps the beginning of what a command prints: a probe's output goes into a message.
type output struct{ bytes []byte }

const outputMax = 4096

func (o *output) Write(bytes []byte) (int, error) {
	o.bytes = append(o.bytes, bytes[:min(len(bytes), outputMax-len(o.bytes))]...)
	return len(bytes), nil
}
