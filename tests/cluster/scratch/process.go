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

	"cluster.signpost.test/netns"
)

// lingering is how long output is awaited from what a command left running.
const lingering = 100 * time.Millisecond

// Process is the first program of a container. When it ends, so does all that it started.
type Process struct {
	spec   *Spec
	netns  string
	pid    int
	signal func(syscall.Signal)
	exited chan struct{}
	code   int
}

// Start runs the program in a container of its own, within a network namespace. It returns when the program has
// begun.
func Start(spec *Spec, netnsPath string, output *os.File) (*Process, error) {
	command := exec.Command("/proc/self/exe", command)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Setsid:     true,
	}
	var begun error
	err := netns.Do(netnsPath, func() (err error) {
		begun, err = begin(command, spec)
		return err
	})
	if err != nil {
		return nil, err
	}
	if begun != nil {
		command.Wait()
		return nil, begun
	}
	p := &Process{
		spec: spec, netns: netnsPath, pid: command.Process.Pid, exited: make(chan struct{}),
		signal: func(signal syscall.Signal) { command.Process.Signal(signal) },
	}
	go func() {
		command.Wait()
		p.code = exitCode(command.ProcessState.Sys().(syscall.WaitStatus))
		close(p.exited)
	}()
	return p, nil
}

// exitCode is the program's, or 128 and the signal that ended it.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// unknownCode is what a kubelet says of a container whose end it did not see.
const unknownCode = 137

// Adopt takes over a container that another process of ours started, which has ended since. The caller has made
// sure that the number is still the program's. How it ends is not to be known: the exit code is 137.
func Adopt(spec *Spec, netnsPath string, pid int) (*Process, error) {
	handle, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("taking over process %d: %w", pid, err)
	}
	// Closed with the last one who knows it, since signals may still be on their way at its end.
	file := os.NewFile(uintptr(handle), "process")
	p := &Process{spec: spec, netns: netnsPath, pid: pid, exited: make(chan struct{}), code: unknownCode}
	p.signal = func(signal syscall.Signal) { unix.PidfdSendSignal(int(file.Fd()), signal, nil, 0) }
	go func() {
		defer close(p.exited)
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
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
func (p *Process) PID() int { return p.pid }

// Signal signals it; one that has ended hears nothing.
func (p *Process) Signal(signal syscall.Signal) { p.signal(signal) }

// Exited is closed when the program has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitCode is known once it has ended.
func (p *Process) ExitCode() int { return p.code }

// Exec runs one more program in the container and returns what it printed.
func (p *Process) Exec(ctx context.Context, argv []string) ([]byte, error) {
	spec := *p.spec
	spec.Argv, spec.Enter = argv, p.PID()
	command := exec.CommandContext(ctx, "/proc/self/exe", command)
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
