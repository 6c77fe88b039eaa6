// Package remote runs programs on another machine: inside a virtual machine's guest, from its host.
//
// The client sends one line of JSON, a Request; the server answers with lines of JSON, Replies, of which
// the last one has an exit code or an error. There is no authentication whatever: the server is for a
// guest that only its host can reach.
package remote

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line in either direction: a whole program goes in as standard input, in base64.
const maxLine = 64 << 20

// maxChunk is how much output one reply carries.
const maxChunk = 32 << 10

// Request is what to run.
type Request struct {
	Argv  []string `json:"argv"`
	Env   []string `json:"env,omitempty"`
	Stdin []byte   `json:"stdin,omitempty"`
}

// Reply has one of its fields set.
type Reply struct {
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
	// Exit ends the conversation: the program's exit code, or 128 and the signal that ended it.
	Exit *int `json:"exit,omitempty"`
	// Error ends it too: the program could not be run.
	Error string `json:"error,omitempty"`
}

// lines reads one JSON value a line.
type lines struct{ scanner *bufio.Scanner }

func newLines(from io.Reader) lines {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, maxLine)
	return lines{scanner}
}

func (l lines) next(into any) error {
	if !l.scanner.Scan() {
		if errors.Is(l.scanner.Err(), bufio.ErrTooLong) {
			return fmt.Errorf("a line of more than %d bytes", maxLine)
		}
		if err := l.scanner.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	return json.Unmarshal(l.scanner.Bytes(), into)
}
