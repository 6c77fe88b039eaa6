package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// failed is the exit code when there is none of the program: as ssh has it.
const failed = 255

// dialTimeout: the guest is on this machine.
const dialTimeout = 5 * time.Second

// NewRunCommand returns "run-command". It ends the process with the program's exit code.
func NewRunCommand() *cobra.Command {
	var to string
	var env []string
	var stdin bool
	command := &cobra.Command{
		Use:   "run-command --to ADDRESS:PORT -- ARGV...",
		Short: "Runs a program where serve-commands listens, and ends with its exit code",
		Args:  cobra.MinimumNArgs(1),
		Run: func(_ *cobra.Command, argv []string) {
			request := Request{Argv: argv, Env: env}
			code, err := failed, error(nil)
			if stdin {
				request.Stdin, err = io.ReadAll(os.Stdin)
			}
			if err == nil {
				code, err = Run(to, request, os.Stdout, os.Stderr)
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "run-command: %s: %v\n", to, err)
			}
			os.Exit(code)
		},
	}
	command.Flags().StringVar(&to, "to", "", "ADDRESS:PORT of serve-commands")
	command.Flags().StringArrayVar(&env, "env", nil, "KEY=VALUE for the program (repeatable)")
	command.Flags().BoolVar(&stdin, "stdin", false, "send standard input, which is read to its end first")
	if err := command.MarkFlagRequired("to"); err != nil {
		panic(err) // a flag of the lines above
	}
	return command
}

// Run runs the program there and returns its exit code.
func Run(to string, request Request, stdout, stderr io.Writer) (int, error) {
	connection, err := net.DialTimeout("tcp", to, dialTimeout)
	if err != nil {
		return failed, err
	}
	defer connection.Close()
	line, err := json.Marshal(request)
	if err != nil {
		return failed, err
	}
	if len(line) >= maxLine {
		return failed, fmt.Errorf("standard input is too long: a request has at most %d bytes", maxLine)
	}
	if _, err := connection.Write(append(line, '\n')); err != nil {
		return failed, err
	}
	replies := newLines(connection)
	for {
		var reply Reply
		if err := replies.next(&reply); errors.Is(err, io.EOF) {
			return failed, errors.New("the connection ended before the program did")
		} else if err != nil {
			return failed, err
		}
		switch {
		case reply.Error != "":
			return failed, errors.New(reply.Error)
		case reply.Exit != nil:
			return *reply.Exit, nil
		default:
			stdout.Write(reply.Stdout)
			stderr.Write(reply.Stderr)
		}
	}
}
