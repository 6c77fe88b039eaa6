package node

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"cluster.signpost.test/netns"
)

// labTimeout is far more than a busy machine needs to wire one pod.
const labTimeout = 60 * time.Second

// memberName is the name of a Pod in the lab, where Kubernetes' namespaces do not exist.
func memberName(namespace, name string) string {
	if namespace == "default" {
		return name
	}
	return namespace + "." + name
}

// netnsPath is the network namespace of a member of the lab.
func (c Config) netnsPath(member string) string {
	return netns.Directory + "signpost-lab." + c.Lab + "." + member
}

// inLab says whether the lab has such a member.
func (c Config) inLab(member string) bool {
	_, err := os.Stat(c.netnsPath(member))
	return err == nil
}

// addPod makes the pod's namespace, wires it and starts its server, which answers as the Pod's name.
func (c Config) addPod(ctx context.Context, member, answers string, address netip.Addr, ports []int32) error {
	args := []string{"add-pod", "--name", c.Lab, member, "--node", c.Name, "--address", address.String()}
	for _, port := range ports {
		args = append(args, "--port", strconv.Itoa(int(port)))
	}
	if answers != member {
		args = append(args, "--answers", answers)
	}
	return c.lab(ctx, args...)
}

func (c Config) removePod(ctx context.Context, member string) error {
	return c.lab(ctx, "remove-pod", "--name", c.Lab, member)
}

func (c Config) lab(ctx context.Context, args ...string) error {
	// The stand-in's end waits for it: a pod is made completely or not at all.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), labTimeout)
	defer cancel()
	// Into a file: a pipe would stay open in the server that add-pod leaves behind.
	output, err := os.CreateTemp("", "signpost-lab-*")
	if err != nil {
		return err
	}
	defer output.Close()
	if err := os.Remove(output.Name()); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, c.Signpost, append([]string{"lab"}, args...)...)
	command.Stdout, command.Stderr = output, output
	if err := command.Run(); err != nil {
		said, _ := io.ReadAll(io.NewSectionReader(output, 0, 4096))
		return fmt.Errorf("%s: %w: %s", strings.Join(command.Args, " "), err, strings.TrimSpace(string(said)))
	}
	return nil
}
