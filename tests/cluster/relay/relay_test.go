package relay

import (
	"io"
	"net"
	"testing"
)

// A client that has said everything still gets the answer: the end of one direction ends only that one.
func TestTheEndOfOneDirectionLeavesTheOther(t *testing.T) {
	server := listen(t)
	go func() {
		connection, err := server.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		asked, _ := io.ReadAll(connection)
		connection.Write(append([]byte("you said "), asked...))
	}()
	front := listen(t)
	go Serve(front, server.Addr().String())

	connection, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	connection.Write([]byte("hello"))
	connection.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(connection)
	if err != nil || string(answer) != "you said hello" {
		t.Fatalf("%q, %v", answer, err)
	}
}

func TestAServerThatIsNotThereClosesTheClient(t *testing.T) {
	gone := listen(t)
	gone.Close()
	front := listen(t)
	go Serve(front, gone.Addr().String())
	connection, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if answer, _ := io.ReadAll(connection); len(answer) > 0 {
		t.Fatalf("%q", answer)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}
