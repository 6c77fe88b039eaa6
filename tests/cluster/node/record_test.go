package node

import (
	"net/netip"
	"os/exec"
	"reflect"
	"testing"
)

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	config := testConfig
	config.Directory = t.TempDir()
	if uids, err := config.recorded(); err != nil || len(uids) != 0 {
		t.Fatalf("%v, %v", uids, err)
	}
	for _, want := range []record{
		{Namespace: "n", Name: "p", Member: "n.p", Address: netip.MustParseAddr("198.19.1.16"), Serving: true},
		{Namespace: "n", Name: "p", Processes: map[string]processID{"c": {1, 2}}},
	} {
		if err := config.writeRecord("u", want); err != nil {
			t.Fatal(err)
		}
		if got, err := config.readRecord("u"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if uids, err := config.recorded(); err != nil || len(uids) != 1 || uids[0] != "u" {
		t.Fatalf("%v, %v", uids, err)
	}
}

func TestAProcessIsEndedUnlessItsNumberIsAnothers(t *testing.T) {
	command := exec.Command("sleep", "60")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	id, err := identify(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := (processID{id.PID, id.Start - 1}).end(); err != nil {
		t.Fatal(err)
	}
	if now, err := identify(id.PID); err != nil || now != id {
		t.Fatalf("a later process of the same number was ended: %v, %v", now, err)
	}
	if err := id.end(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if err := id.end(); err != nil {
		t.Fatalf("one that has ended: %v", err)
	}
}
