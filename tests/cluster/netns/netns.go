// Package netns runs code inside a named network namespace.
//
// A namespace belongs to an OS thread, and a socket stays for ever in the one where it was made. So
// only the making happens there: on a thread that is thrown away afterwards.
package netns

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Directory is where "ip netns" keeps the names.
const Directory = "/run/netns/"

// Do runs f on a thread of its own inside the namespace at path, and waits for it. What f starts on
// other goroutines is not inside; a process that it starts is.
func Do(path string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the runtime ends a thread whose goroutine ends so, and no other
		// goroutine finds itself in a strange place.
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The process's first thread is never ended, and would keep the namespace. While it is held
			// here, another goroutine gets another one.
			done <- Do(path, f)
			runtime.UnlockOSThread()
			return
		}
		if err := enter(path); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// Listen makes a listening TCP socket inside the namespace at path.
func Listen(path, address string) (net.Listener, error) {
	var listener net.Listener
	err := Do(path, func() (err error) {
		var config net.ListenConfig
		config.SetMultipathTCP(false)
		listener, err = config.Listen(context.Background(), "tcp", address)
		return err
	})
	return listener, err
}

// Dial connects from inside the namespace at path. The address is a literal one: the resolver works on
// goroutines of its own, which are not inside.
func Dial(ctx context.Context, path, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) == nil {
		return nil, fmt.Errorf("%s is a name: only addresses are reached from inside a namespace", host)
	}
	var connection net.Conn
	err = Do(path, func() (err error) {
		var dialer net.Dialer
		connection, err = dialer.DialContext(ctx, "tcp", address)
		return err
	})
	return connection, err
}

func enter(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering network namespace %s: %w", path, err)
	}
	return nil
}
