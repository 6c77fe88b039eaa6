package node

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// ownsImages says whether a Pod runs the program under test: in the node's network, and of our images only.
// One with other images beside them is refused later.
func ownsImages(pod *corev1.Pod, images []string) bool {
	if !pod.Spec.HostNetwork {
		return false
	}
	for container := range podutil.ContainerIter(&pod.Spec, podutil.AllContainers) {
		if !isOwnImage(container.Image, images) {
			return false
		}
	}
	return true
}

// isOwnImage compares the last part of the path, without tag and digest.
func isOwnImage(image string, images []string) bool {
	image, _, _ = strings.Cut(image, "@")
	image = image[strings.LastIndexByte(image, '/')+1:]
	image, _, _ = strings.Cut(image, ":")
	for _, own := range images {
		if image == own {
			return true
		}
	}
	return false
}

// refuse is the first thing that a Pod asks for and that is not to be had here.
func refuse(pod *corev1.Pod, own bool, images []string) error {
	if err := refuseAny(pod); err != nil {
		return err
	}
	if own {
		return refuseHost(pod)
	}
	return refuseOrdinary(pod, images)
}

func cannot(field, cure string, args ...any) error {
	return fmt.Errorf("%s cannot be had on a stand-in node: %s", field, fmt.Sprintf(cure, args...))
}

// refuseAny looks at what no Pod can have.
func refuseAny(pod *corev1.Pod) error {
	spec := &pod.Spec
	switch {
	case spec.ActiveDeadlineSeconds != nil:
		return cannot("spec.activeDeadlineSeconds", "leave it out")
	case len(spec.EphemeralContainers) > 0:
		return cannot("spec.ephemeralContainers", "look into the node's network namespace instead")
	case len(spec.ResourceClaims) > 0:
		return cannot("spec.resourceClaims", "leave them out")
	}
	for container := range podutil.ContainerIter(spec, podutil.AllContainers) {
		field := "container " + container.Name + ": "
		switch {
		case container.RestartPolicyRules != nil:
			return cannot(field+"restartPolicyRules", "leave them out")
		case container.Lifecycle != nil && container.Lifecycle.PostStart != nil:
			return cannot(field+"lifecycle.postStart", "leave it out")
		case container.Lifecycle != nil && container.Lifecycle.StopSignal != nil:
			return cannot(field+"lifecycle.stopSignal", "leave it out; it is SIGTERM")
		}
	}
	return nil
}

// refuseOrdinary looks at what a pod of the lab cannot have.
func refuseOrdinary(pod *corev1.Pod, images []string) error {
	spec := &pod.Spec
	if spec.HostNetwork {
		return cannot("spec.hostNetwork", "only the program under test runs in a node's network, not the image %s", otherImage(spec, images))
	}
	if len(spec.InitContainers) > 0 {
		return cannot("spec.initContainers", "an ordinary Pod is one server, so leave them out")
	}
	for _, container := range spec.Containers {
		for _, port := range container.Ports {
			if port.HostPort != 0 {
				return cannot("container "+container.Name+": hostPort", "use a Service")
			}
			if port.Protocol == corev1.ProtocolSCTP {
				return cannot("container "+container.Name+": a port with protocol SCTP", "the server has TCP and UDP")
			}
		}
	}
	if text, ok := pod.Annotations[stopAfterAnnotation]; ok {
		if _, err := time.ParseDuration(text); err != nil {
			return cannot("annotation "+stopAfterAnnotation, "%q is no duration like 2s", text)
		}
	}
	return nil
}

func otherImage(spec *corev1.PodSpec, images []string) string {
	for container := range podutil.ContainerIter(spec, podutil.AllContainers) {
		if !isOwnImage(container.Image, images) {
			return container.Image
		}
	}
	return ""
}

// refuseHost looks at what a container of the program under test cannot have.
func refuseHost(pod *corev1.Pod) error {
	spec := &pod.Spec
	switch {
	case spec.RestartPolicy != corev1.RestartPolicyAlways:
		return cannot("spec.restartPolicy: "+string(spec.RestartPolicy), "only Always")
	case spec.HostPID, spec.HostIPC, spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace:
		return cannot("spec.hostPID, hostIPC or shareProcessNamespace", "leave it out")
	case spec.HostUsers != nil && !*spec.HostUsers:
		return cannot("spec.hostUsers: false", "leave it out")
	case len(spec.HostAliases) > 0:
		return cannot("spec.hostAliases", "there is no /etc/hosts")
	case spec.DNSConfig != nil:
		return cannot("spec.dnsConfig", "there is no /etc/resolv.conf")
	case spec.RuntimeClassName != nil:
		return cannot("spec.runtimeClassName", "leave it out")
	case spec.Hostname != "" || spec.SetHostnameAsFQDN != nil && *spec.SetHostnameAsFQDN:
		return cannot("spec.hostname", "it is the node's")
	}
	if context := spec.SecurityContext; context != nil {
		switch {
		case context.FSGroup != nil:
			return cannot("spec.securityContext.fsGroup", "leave it out")
		case len(context.Sysctls) > 0:
			return cannot("spec.securityContext.sysctls", "leave them out")
		case context.SELinuxOptions != nil, context.WindowsOptions != nil, localProfile(context.AppArmorProfile, context.SeccompProfile):
			return cannot("spec.securityContext.seLinuxOptions, windowsOptions or a profile of type Localhost", "leave it out")
		}
	}
	for i := range spec.Volumes {
		if err := refuseVolume(&spec.Volumes[i]); err != nil {
			return err
		}
	}
	for container := range podutil.ContainerIter(spec, podutil.AllContainers) {
		if err := refuseContainer(container); err != nil {
			return err
		}
	}
	return nil
}

func localProfile(apparmor *corev1.AppArmorProfile, seccomp *corev1.SeccompProfile) bool {
	return apparmor != nil && apparmor.Type == corev1.AppArmorProfileTypeLocalhost ||
		seccomp != nil && seccomp.Type == corev1.SeccompProfileTypeLocalhost
}

func refuseContainer(c *corev1.Container) error {
	field := "container " + c.Name + ": "
	switch {
	case c.Stdin || c.TTY:
		return cannot(field+"stdin or tty", "leave it out")
	case len(c.VolumeDevices) > 0:
		return cannot(field+"volumeDevices", "leave them out")
	case len(c.Resources.Claims) > 0:
		return cannot(field+"resources.claims", "leave them out")
	}
	for _, mount := range c.VolumeMounts {
		if mount.MountPropagation != nil && *mount.MountPropagation != corev1.MountPropagationNone {
			return cannot(field+"volumeMounts "+mount.Name+": mountPropagation", "leave it out")
		}
		if mount.RecursiveReadOnly != nil && *mount.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled {
			return cannot(field+"volumeMounts "+mount.Name+": recursiveReadOnly", "leave it out")
		}
	}
	for _, env := range c.Env {
		if from := env.ValueFrom; from != nil && from.FieldRef == nil && from.SecretKeyRef == nil && from.ConfigMapKeyRef == nil {
			return cannot(field+"env "+env.Name+": valueFrom", "only fieldRef, secretKeyRef and configMapKeyRef")
		}
	}
	if context := c.SecurityContext; context != nil {
		if context.SELinuxOptions != nil || context.WindowsOptions != nil || localProfile(context.AppArmorProfile, context.SeccompProfile) {
			return cannot(field+"securityContext.seLinuxOptions, windowsOptions or a profile of type Localhost", "leave it out")
		}
		if context.ProcMount != nil && *context.ProcMount != corev1.DefaultProcMount {
			return cannot(field+"securityContext.procMount", "leave it out")
		}
	}
	return nil
}

func refuseVolume(v *corev1.Volume) error {
	field := "volume " + v.Name
	switch source := &v.VolumeSource; {
	case source.Secret != nil, source.ConfigMap != nil, source.EmptyDir != nil:
		return nil
	case source.DownwardAPI != nil:
		return refuseItems(field, source.DownwardAPI.Items)
	case source.HostPath != nil:
		if kind := source.HostPath.Type; kind != nil {
			switch *kind {
			case corev1.HostPathCharDev, corev1.HostPathBlockDev:
				return cannot(field+": hostPath of type "+string(*kind), "a node has no devices")
			}
		}
		return nil
	case source.Projected != nil:
		for _, projection := range source.Projected.Sources {
			switch {
			case projection.Secret != nil, projection.ConfigMap != nil, projection.ServiceAccountToken != nil:
			case projection.DownwardAPI != nil:
				if err := refuseItems(field, projection.DownwardAPI.Items); err != nil {
					return err
				}
			default:
				return cannot(field+": a projected source", "only secret, configMap, downwardAPI and serviceAccountToken")
			}
		}
		return nil
	default:
		return cannot(field, "only secret, configMap, projected, downwardAPI, emptyDir and hostPath")
	}
}

func refuseItems(field string, items []corev1.DownwardAPIVolumeFile) error {
	for _, item := range items {
		if item.ResourceFieldRef != nil {
			return cannot(field+": resourceFieldRef", "leave it out")
		}
	}
	return nil
}
