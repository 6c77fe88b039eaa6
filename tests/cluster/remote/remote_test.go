package remote

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestPrograms(t *testing.T) {
	to := serve(t)
	for name, c := range map[string]struct {
		request        Request
		stdout, stderr string
		code           int
		fails          string
	}{
		"both outputs and the code": {
			request: Request{Argv: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}},
			stdout:  "out\n", stderr: "err\n", code: 3,
		},
		"the root folder":   {request: Request{Argv: []string{"pwd"}}, stdout: "/\n"},
		"environment":       {request: Request{Argv: []string{"sh", "-c", "echo $A"}, Env: []string{"A=b"}}, stdout: "b\n"},
		"standard input":    {request: Request{Argv: []string{"cat"}, Stdin: []byte("a\x00b")}, stdout: "a\x00b"},
		"a signal":          {request: Request{Argv: []string{"sh", "-c", "kill -TERM $$"}}, code: 128 + 15},
		"no such program":   {request: Request{Argv: []string{"no-such-program"}}, code: failed, fails: "not found"},
		"no program at all": {code: failed, fails: "names no program"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code, err := Run(to, c.request, &stdout, &stderr)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Fatalf("error %v, want %q", err, c.fails)
			}
			if code != c.code || stdout.String() != c.stdout || stderr.String() != c.stderr {
				t.Fatalf("%d %q %q", code, stdout.String(), stderr.String())
			}
		})
	}
}

// All output arrives, whatever its size.
func TestMuchOutput(t *testing.T) {
	var stdout bytes.Buffer
	code, err := Run(serve(t), Request{Argv: []string{"head", "-c", "5000000", "/dev/zero"}}, &stdout, &stdout)
	if code != 0 || err != nil || stdout.Len() != 5000000 {
		t.Fatalf("%d %v %d", code, err, stdout.Len())
	}
}

// A daemon that keeps the output open does not keep the client.
func TestABackgroundProcessHoldsNobody(t *testing.T) {
	directory := t.TempDir()
	begin := time.Now()
	var stdout bytes.Buffer
	code, err := Run(serve(t), Request{Argv: []string{"sh", "-c", "echo begun; sleep 60 & echo $! > " + directory + "/pid"}}, &stdout, &stdout)
	if code != 0 || err != nil || stdout.String() != "begun\n" {
		t.Fatalf("%d %v %q", code, err, stdout.String())
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Fatalf("%v", took)
	}
	pid, err := os.ReadFile(filepath.Join(directory, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := Run(serve(t), Request{Argv: []string{"kill", strings.TrimSpace(string(pid))}}, &stdout, &stdout); code != 0 {
		t.Fatal("the background process is gone; it must stay")
	}
}

// The program goes when the client does: its end closes the pipe that the test reads.
func TestTheProgramEndsWithItsClient(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if code, err := Run(serve(t), Request{Argv: []string{"mkfifo", fifo}}, &bytes.Buffer{}, &bytes.Buffer{}); code != 0 {
		t.Fatal(code, err)
	}
	connection, err := net.Dial("tcp", serve(t))
	if err != nil {
		t.Fatal(err)
	}
	request := Request{Argv: []string{"sh", "-c", "exec > " + fifo + "; echo up; sleep 60; true"}}
	if err := json.NewEncoder(connection).Encode(request); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	up := make([]byte, 3)
	if _, err := pipe.Read(up); err != nil {
		t.Fatal(err)
	}
	connection.Close()
	begin := time.Now()
	if n, err := pipe.Read(up); n != 0 || time.Since(begin) > 30*time.Second {
		t.Fatalf("%d %v after %v", n, err, time.Since(begin))
	}
}

func TestManyAtOnce(t *testing.T) {
	to := serve(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			var stdout bytes.Buffer
			if code, err := Run(to, Request{Argv: []string{"echo", "x"}}, &stdout, &stdout); code != 0 || stdout.String() != "x\n" {
				t.Errorf("%d %v %q", code, err, stdout.String())
			}
		})
	}
	all.Wait()
}

func serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go Serve(listener)
	return listener.Addr().String()
}
