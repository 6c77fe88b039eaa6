package netns

import (
	"context"
	"io"
	"os"
	"os/exec"
	"testing"
)

// It needs root, as all of this does.
func TestSocketsAreMadeInside(t *testing.T) {
	const name = "signpost-netns-test"
	ip := func(args ...string) {
		t.Helper()
		if output, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, output)
		}
	}
	ip("netns", "add", name)
	t.Cleanup(func() { ip("netns", "del", name) })
	ip("-n", name, "link", "set", "lo", "up")

	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}

	path := Directory + name
	listener, err := Listen(path, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			io.WriteString(connection, "inside")
			connection.Close()
		}
	}()
	address := listener.Addr().String()
	connection, err := Dial(context.Background(), path, address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if said, err := io.ReadAll(connection); err != nil || string(said) != "inside" {
		t.Errorf("%q, %v", said, err)
	}
	// The process is never inside, which /proc tells by its first thread.
	for range 300 {
		if err := Do(path, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if now, _ := os.Readlink("/proc/self/ns/net"); now != own {
			t.Fatal("the first thread is inside")
		}
	}
	// What runs afterwards, on whatever thread, is outside again.
	for range 50 {
		if connection, err := Dial(context.Background(), "/proc/self/ns/net", address); err == nil {
			connection.Close()
			t.Fatal("the listener is in this namespace")
		}
	}
}

func TestANamespaceThatIsNotThereIsNamed(t *testing.T) {
	if err := Do(Directory+"none", func() error { return nil }); err == nil {
		t.Error("no error")
	}
}

func TestANameIsRefused(t *testing.T) {
	if _, err := Dial(context.Background(), "/proc/self/ns/net", "localhost:1"); err == nil || err.Error() != "localhost is a name: only addresses are reached from inside a namespace" {
		t.Error(err)
	}
}
