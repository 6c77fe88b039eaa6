package scratch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test's own file is the child, and the program in the container too. It needs root.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[0] == "/program":
		program(os.Args[1:])
	default:
		os.Exit(m.Run())
	}
}

// program does what the test asks for in its arguments.
func program(argv []string) {
	ask := map[string]func(){
		"status":  func() { show("/proc/self/status") },
		"root":    func() { list("/") },
		"dev":     func() { list("/dev") },
		"files":   func() { list("/proc/self/fd") },
		"pid":     func() { fmt.Println(os.Getpid()) },
		"user":    func() { fmt.Println(os.Getuid(), os.Getgid()) },
		"here":    func() { fmt.Println(os.Getwd()) },
		"name":    func() { fmt.Println(os.Hostname()) },
		"env":     func() { fmt.Println(os.Environ()) },
		"links":   func() { list("/sys/class/net") },
		"sysctl":  func() { fmt.Println(os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0o644)) },
		"write":   func() { fmt.Println(os.WriteFile(argv[1], nil, 0o644)) },
		"read":    func() { show(argv[1]) },
		"seven":   func() { os.Exit(7) },
		"serving": serving,
		"same": func() {
			own, err := os.Readlink("/proc/self/ns/mnt")
			first, err2 := os.Readlink("/proc/1/ns/mnt")
			fmt.Println(own == first, err, err2)
		},
	}
	ask[argv[0]]()
	os.Exit(0)
}

func show(file string) {
	bytes, err := os.ReadFile(file)
	fmt.Println(string(bytes), err)
}

func list(folder string) {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		fmt.Print(entry.Name(), " ")
	}
	fmt.Println(err)
}

func serving() {
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	fmt.Println("serving")
	<-terminate
	fmt.Println("bye")
	os.Exit(5)
}

func TestAProgramSeesWhatAContainerSees(t *testing.T) {
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.WriteFile(file, []byte("content"), 0o644), os.Chmod(folder, 0o777)); err != nil {
		t.Fatal(err)
	}
	leak, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	// A file that whoever started us left open for all children.
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, leak.Fd(), syscall.F_SETFD, 0); errno != 0 {
		t.Fatal(errno)
	}
	for _, c := range []struct {
		asked  string
		change func(*Spec)
		want   string
	}{
		{"pid", nil, "1\n"},
		{"root", nil, "dev in lib lib64 proc program sys usr var <nil>\n"},
		{"dev", nil, "fd full null random stderr stdin stdout tty urandom zero <nil>\n"},
		{"name", nil, "node-x <nil>\n"},
		{"env", nil, "[A=b]\n"},
		{"here", nil, "/ <nil>\n"},
		{"here", func(s *Spec) { s.Directory = "/in" }, "/in <nil>\n"},
		{"user", func(s *Spec) { s.UID, s.GID = 1000, 1001 }, "1000 1001\n"},
		{"read /in/file", nil, "content <nil>\n"},
		{"write /in/file", nil, "open /in/file: read-only file system\n"},
		{"write /var/folder/x", nil, "<nil>\n"},
		{"write /x", nil, "<nil>\n"},
		{"write /x", func(s *Spec) { s.ReadOnlyRoot = true }, "open /x: read-only file system\n"},
		{"write /var/folder/y", func(s *Spec) { s.ReadOnlyRoot = true }, "<nil>\n"},
		{"sysctl", nil, "open /proc/sys/net/ipv4/ip_forward: read-only file system\n"},
		{"write /sys/x", nil, "open /sys/x: read-only file system\n"},
	} {
		t.Run(c.asked, func(t *testing.T) {
			spec := specOf(t, strings.Fields(c.asked)...)
			spec.Mounts = append(spec.Mounts, Mount{file, "/in/file", true}, Mount{folder, "/var/folder", false})
			if c.change != nil {
				c.change(spec)
			}
			if said := run(t, spec, 0); said != c.want {
				t.Errorf("%q, want %q", said, c.want)
			}
		})
	}
	if files := strings.Fields(run(t, specOf(t, "files"), 0)); slices.Contains(files, fmt.Sprint(leak.Fd())) {
		t.Errorf("open files: %q", files)
	}
}

// The network namespace is the one that was asked for, also in /sys.
func TestTheNetworkIsTheOneAskedFor(t *testing.T) {
	const name = "signpost-scratch-test"
	if output, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	if said := runIn(t, specOf(t, "links"), "/run/netns/"+name, 0); said != "lo <nil>\n" {
		t.Errorf("%q", said)
	}
}

func TestCapabilitiesAreAllThatThereIs(t *testing.T) {
	const netAdminRaw = "0000000000003000"
	for _, c := range []struct {
		change                          func(*Spec)
		effective, bounding, privileges string
	}{
		{func(s *Spec) { s.Capabilities = []string{"NET_ADMIN", "NET_RAW"} }, netAdminRaw, netAdminRaw, "0"},
		{func(s *Spec) { s.Capabilities = nil }, "0000000000000000", "0000000000000000", "0"},
		{func(s *Spec) { s.NoNewPrivileges, s.Capabilities = true, []string{"NET_ADMIN", "NET_RAW"} }, netAdminRaw, netAdminRaw, "1"},
		// Another user has none, as long as no program gives it one.
		{func(s *Spec) { s.UID, s.Capabilities = 1000, []string{"NET_ADMIN", "NET_RAW"} }, "0000000000000000", netAdminRaw, "0"},
	} {
		spec := specOf(t, "status")
		c.change(spec)
		said := run(t, spec, 0)
		for _, line := range []string{
			"CapEff:\t" + c.effective, "CapPrm:\t" + c.effective, "CapBnd:\t" + c.bounding,
			"CapInh:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t" + c.privileges,
		} {
			if !strings.Contains(said, line+"\n") {
				t.Errorf("%+v: no %q in %s", spec.Capabilities, line, said)
			}
		}
	}
}

func TestTheExitCodeIsThePrograms(t *testing.T) {
	run(t, specOf(t, "seven"), 7)
	_, process := launch(t, specOf(t, "serving"), "/proc/self/ns/net")
	process.Signal(syscall.SIGKILL)
	<-process.Exited()
	if code := process.ExitCode(); code != 128+9 {
		t.Error(code)
	}
}

// It is process 1 there, and those hear only what they ask for: SIGTERM must reach the program itself.
func TestAProgramHearsSIGTERM(t *testing.T) {
	output, process := launch(t, specOf(t, "serving"), "/proc/self/ns/net")
	if line, err := output.ReadString('\n'); line != "serving\n" {
		t.Fatalf("%q, %v", line, err)
	}
	process.Signal(syscall.SIGTERM)
	<-process.Exited()
	if code := process.ExitCode(); code != 5 {
		t.Error(code)
	}
	if line, err := output.ReadString('\n'); line != "bye\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestACommandRunsInsideARunningContainer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := specOf(t, "serving")
	spec.Mounts = append(spec.Mounts, Mount{file, "/in/file", true})
	_, process := launch(t, spec, "/proc/self/ns/net")
	for asked, want := range map[string]string{
		"read /in/file": "content <nil>\n", "root": "dev in lib lib64 proc program sys usr <nil>\n", "same": "true <nil> <nil>\n",
	} {
		said, err := process.Exec(context.Background(), append([]string{"/program"}, strings.Fields(asked)...))
		if err != nil || string(said) != want {
			t.Errorf("%s: %q, %v", asked, said, err)
		}
	}
	if said, err := process.Exec(context.Background(), []string{"/program", "status"}); err != nil || !strings.Contains(string(said), "NSpid:\t") ||
		!strings.Contains(string(said), "CapBnd:\t0000000000000000\n") {
		t.Errorf("%s, %v", said, err)
	}
	var exit *exec.ExitError
	if _, err := process.Exec(context.Background(), []string{"/program", "seven"}); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Error(err)
	}
	if _, err := process.Exec(context.Background(), []string{"/none"}); err == nil || !strings.Contains(err.Error(), "/none") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := process.Exec(ctx, []string{"/program", "serving"}); err == nil {
		t.Error("a command that hangs must end with its time")
	}
}

// The first root folder of a mount namespace need not be ours: a machine may have started in another one.
func TestItIsTheSameBelowAnotherRoot(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const below = `mount --rbind / "$1"; exec chroot "$1" "$2" -test.v -test.run "^TestACommandRunsInsideARunningContainer$"`
	said, err := exec.Command("unshare", "--mount", "sh", "-ec", below, "sh", t.TempDir(), self).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "--- PASS: TestACommandRunsInsideARunningContainer") {
		t.Errorf("%v: %s", err, said)
	}
}

func TestWhatCannotBeStartedIsAnError(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"no program \"/none\"": func(s *Spec) { s.Argv = []string{"/none"} },
		"workingDir":           func(s *Spec) { s.Directory = "/none" },
		"/no/such/source":      func(s *Spec) { s.Mounts = append(s.Mounts, Mount{"/no/such/source", "/x", false}) },
		"NOTHING":              func(s *Spec) { s.Capabilities = []string{"NOTHING"} },
	} {
		spec := specOf(t, "pid")
		change(spec)
		if _, err := Start(spec, "/proc/self/ns/net", os.Stderr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// specOf runs the test's own file, with the libraries that it may need.
func specOf(t *testing.T, argv ...string) *Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := &Spec{
		Hostname: "node-x", Root: t.TempDir(), Argv: append([]string{"/program"}, argv...), Environment: []string{"A=b"},
		Mounts: []Mount{{self, "/program", true}, {"/usr", "/usr", true}, {"/lib", "/lib", true}, {"/lib64", "/lib64", true}},
	}
	return spec
}

func run(t *testing.T, spec *Spec, code int) string {
	t.Helper()
	return runIn(t, spec, "/proc/self/ns/net", code)
}

func runIn(t *testing.T, spec *Spec, netns string, code int) string {
	t.Helper()
	output, process := launch(t, spec, netns)
	said, err := io.ReadAll(output)
	if err != nil {
		t.Fatal(err)
	}
	<-process.Exited()
	if got := process.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	return string(said)
}

func launch(t *testing.T, spec *Spec, netns string) (output *bufio.Reader, process *Process) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	process, err = Start(spec, netns, writer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Signal(syscall.SIGKILL)
		<-process.Exited()
		reader.Close()
	})
	return bufio.NewReader(reader), process
}

// Adopted by the process that started it, as there is no other here: it is the same to it.
func TestAContainerIsTakenOver(t *testing.T) {
	output, process := launch(t, specOf(t, "serving"), "/proc/self/ns/net")
	if line, err := output.ReadString('\n'); line != "serving\n" {
		t.Fatalf("%q, %v", line, err)
	}
	adopted, err := Adopt(specOf(t), "/proc/self/ns/net", process.PID())
	if err != nil {
		t.Fatal(err)
	}
	if said, err := adopted.Exec(context.Background(), []string{"/program", "here"}); err != nil || string(said) != "/ <nil>\n" {
		t.Errorf("%q, %v", said, err)
	}
	select {
	case <-adopted.Exited():
		t.Fatal("it runs, and is said to have ended")
	default:
	}
	adopted.Signal(syscall.SIGTERM)
	<-adopted.Exited()
	if line, err := output.ReadString('\n'); line != "bye\n" {
		t.Errorf("%q, %v", line, err)
	}
	if code := adopted.ExitCode(); code != unknownCode {
		t.Error(code)
	}
	adopted.Signal(syscall.SIGTERM) // nobody hears it
	<-process.Exited()
	if _, err := Adopt(specOf(t), "/proc/self/ns/net", process.PID()); err == nil {
		t.Error("one that has ended was taken over")
	}
}
