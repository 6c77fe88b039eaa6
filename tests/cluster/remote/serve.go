package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// lingering is how long output is awaited after the program's end from what it left running.
const lingering = 100 * time.Millisecond

// NewServeCommand returns "serve-commands".
func NewServeCommand() *cobra.Command {
	var listen string
	command := &cobra.Command{
		Use:   "serve-commands",
		Short: "Runs, as the user that it runs as, whatever run-command sends: for a guest that only its host reaches",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			listener, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			fmt.Println("ready")
			return Serve(listener)
		},
	}
	command.Flags().StringVar(&listen, "listen", "", "ADDRESS:PORT")
	if err := command.MarkFlagRequired("listen"); err != nil {
		panic(err) // a flag of the line above
	}
	return command
}

// Serve answers what the listener accepts, until it is closed.
func Serve(listener net.Listener) error {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go answer(connection)
	}
}

func answer(connection net.Conn) {
	defer connection.Close()
	replies := &replies{encoder: json.NewEncoder(connection)}
	var request Request
	if err := newLines(connection).next(&request); err != nil {
		replies.send(Reply{Error: "the request: " + err.Error()})
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		// A client says nothing more: what comes is its end.
		io.Copy(io.Discard, connection)
		cancel()
	}()
	replies.send(run(ctx, request, replies))
}

// run runs the program to its end and returns the last reply.
func run(ctx context.Context, request Request, replies *replies) Reply {
	if len(request.Argv) == 0 {
		return Reply{Error: "the request names no program: put it after --"}
	}
	command := exec.CommandContext(ctx, request.Argv[0], request.Argv[1:]...)
	command.Dir = "/"
	command.Env = append(os.Environ(), request.Env...)
	command.Stdin = bytes.NewReader(request.Stdin)
	command.Stdout = output{replies, func(b []byte) Reply { return Reply{Stdout: b} }}
	command.Stderr = output{replies, func(b []byte) Reply { return Reply{Stderr: b} }}
	// A group of its own: a shell's children end with it when the client leaves.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	// What the program left in the background may hold its output open for ever.
	command.WaitDelay = lingering
	err := command.Run()
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return Reply{Exit: new(int)}
	case errors.As(err, &exit):
		code := exit.ExitCode()
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			code = 128 + int(status.Signal())
		}
		return Reply{Exit: &code}
	default:
		return Reply{Error: err.Error()}
	}
}

// replies are sent by several goroutines.
type replies struct {
	mutex   sync.Mutex
	encoder *json.Encoder
}

func (r *replies) send(reply Reply) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.encoder.Encode(reply)
}

// output is one of a program's two outputs.
type output struct {
	replies *replies
	reply   func([]byte) Reply
}

func (o output) Write(out []byte) (int, error) {
	for sent := 0; sent < len(out); {
		end := min(sent+maxChunk, len(out))
		if err := o.replies.send(o.reply(out[sent:end])); err != nil {
			return sent, err
		}
		sent = end
	}
	return len(out), nil
}
