// Package relay lets programs inside a network namespace reach one address outside of it.
package relay

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"cluster.signpost.test/netns"
)

// A server that does not answer in this time is reported to the client by closing.
const dialTimeout = 5 * time.Second

// NewCommand returns "relay".
func NewCommand() *cobra.Command {
	var listen, namespace, to string
	command := &cobra.Command{
		Use:   "relay",
		Short: "Listens inside a network namespace and passes connections on from its own",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			listener, err := netns.Listen(namespace, listen)
			if err != nil {
				return err
			}
			fmt.Println("ready")
			return Serve(listener, to)
		},
	}
	command.Flags().StringVar(&listen, "listen", "", "ADDRESS:PORT inside the namespace")
	command.Flags().StringVar(&namespace, "netns", "", "the namespace: /run/netns/NAME")
	command.Flags().StringVar(&to, "to", "", "HOST:PORT to connect to")
	for _, flag := range []string{"listen", "netns", "to"} {
		if err := command.MarkFlagRequired(flag); err != nil {
			panic(err) // a flag of the lines above
		}
	}
	return command
}

// Serve passes on what the listener accepts, until it is closed.
func Serve(listener net.Listener, to string) error {
	for {
		client, err := listener.Accept()
		if err != nil {
			return err
		}
		go pass(client.(*net.TCPConn), to)
	}
}

func pass(client *net.TCPConn, to string) {
	defer client.Close()
	connection, err := net.DialTimeout("tcp", to, dialTimeout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "relay to %s: %v\n", to, err)
		return
	}
	server := connection.(*net.TCPConn)
	defer server.Close()
	done := make(chan struct{})
	go func() {
		half(server, client)
		close(done)
	}()
	half(client, server)
	<-done
}

// half copies one direction; its end is passed on, and the other direction goes on.
func half(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		// Broken, not ended: the other direction has no use any more.
		from.Close()
		to.Close()
		return
	}
	to.CloseWrite()
}
