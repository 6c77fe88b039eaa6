package node

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"cluster.signpost.test/scratch"
)

// user is who a container's program runs as.
type user struct {
	uid, gid int64
	groups   []int64
	nonRoot  bool
}

// runAs puts together what the Pod and the container say; the container's word counts more.
func runAs(pod *corev1.Pod, c *corev1.Container) user {
	var u user
	if context := pod.Spec.SecurityContext; context != nil {
		u.groups = context.SupplementalGroups
		set(&u.uid, context.RunAsUser)
		set(&u.gid, context.RunAsGroup)
		set(&u.nonRoot, context.RunAsNonRoot)
	}
	if context := c.SecurityContext; context != nil {
		set(&u.uid, context.RunAsUser)
		set(&u.gid, context.RunAsGroup)
		set(&u.nonRoot, context.RunAsNonRoot)
	}
	return u
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// privileges fills in what a container may do.
func privileges(spec *scratch.Spec, pod *corev1.Pod, c *corev1.Container) error {
	u := runAs(pod, c)
	if u.nonRoot && u.uid == 0 {
		return fmt.Errorf("container %s: runAsNonRoot is set, and it would run as root: set runAsUser", c.Name)
	}
	spec.UID, spec.GID = int(u.uid), int(u.gid)
	for _, group := range u.groups {
		spec.Groups = append(spec.Groups, int(group))
	}
	spec.Capabilities = slices.Clone(scratch.DefaultCapabilities)
	context := c.SecurityContext
	if context == nil {
		return nil
	}
	if context.Privileged != nil && *context.Privileged {
		spec.Privileged = true
		spec.Capabilities = scratch.AllCapabilities()
	}
	if context.AllowPrivilegeEscalation != nil {
		spec.NoNewPrivileges = !*context.AllowPrivilegeEscalation
	}
	if context.ReadOnlyRootFilesystem != nil {
		spec.ReadOnlyRoot = *context.ReadOnlyRootFilesystem
	}
	if context.Capabilities == nil || spec.Privileged {
		return nil
	}
	var err error
	spec.Capabilities, err = capabilities(spec.Capabilities, context.Capabilities)
	return err
}

// capabilities drops and adds, in this order, as container runtimes do.
func capabilities(have []string, change *corev1.Capabilities) ([]string, error) {
	for _, drop := range change.Drop {
		name := strings.TrimPrefix(strings.ToUpper(string(drop)), "CAP_")
		if name == "ALL" {
			have = nil
			continue
		}
		have = slices.DeleteFunc(have, func(h string) bool { return h == name })
	}
	for _, add := range change.Add {
		name := strings.TrimPrefix(strings.ToUpper(string(add)), "CAP_")
		if name == "ALL" {
			return scratch.AllCapabilities(), nil
		}
		if !scratch.IsCapability(name) {
			return nil, fmt.Errorf("securityContext.capabilities.add: %s is no capability: correct the name", add)
		}
		if !slices.Contains(have, name) {
			have = append(have, name)
		}
	}
	return have, nil
}
