package node

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	podfields "k8s.io/kubernetes/pkg/apis/core/pods"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
	"k8s.io/utils/ptr"
)

// searchPath is what an image built FROM scratch has, without saying so.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// objects are the Secrets and ConfigMaps that a Pod names; the error of a missing one says so.
type objects interface {
	secret(name string) (*corev1.Secret, error)
	configMap(name string) (*corev1.ConfigMap, error)
}

// commandLine is a container's program, arguments and environment, with $(VARIABLE) replaced.
func commandLine(config Config, pod *corev1.Pod, c *corev1.Container, objects objects) (argv, environment []string, err error) {
	variables, err := variables(config, pod, c, objects)
	if err != nil {
		return nil, nil, err
	}
	expand := expansion.MappingFuncFor(variables)
	command := c.Command
	if len(command) == 0 {
		command = []string{entrypoint}
	}
	for _, word := range slices.Concat(command, c.Args) {
		argv = append(argv, expansion.Expand(word, expand))
	}
	for name, value := range variables {
		environment = append(environment, name+"="+value)
	}
	slices.Sort(environment)
	return argv, environment, nil
}

// variables are a container's: later ones win, and may use earlier ones.
func variables(config Config, pod *corev1.Pod, c *corev1.Container, objects objects) (map[string]string, error) {
	result := map[string]string{"PATH": searchPath, "HOSTNAME": config.Name}
	if config.APIHost != "" {
		result["KUBERNETES_SERVICE_HOST"] = config.APIHost
		result["KUBERNETES_SERVICE_PORT"] = config.APIPort
		result["KUBERNETES_SERVICE_PORT_HTTPS"] = config.APIPort
	}
	for i := range c.EnvFrom {
		data, err := wholeObject(&c.EnvFrom[i], objects)
		if err != nil {
			return nil, fmt.Errorf("envFrom[%d]: %w", i, err)
		}
		for key, value := range data {
			result[c.EnvFrom[i].Prefix+key] = value
		}
	}
	expand := expansion.MappingFuncFor(result)
	for _, env := range c.Env {
		if env.ValueFrom == nil {
			result[env.Name] = expansion.Expand(env.Value, expand)
			continue
		}
		value, err := valueFrom(config, pod, env.ValueFrom, objects)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", env.Name, err)
		}
		if value != nil {
			result[env.Name] = *value
		}
	}
	return result, nil
}

func wholeObject(from *corev1.EnvFromSource, objects objects) (map[string]string, error) {
	switch {
	case from.ConfigMapRef != nil:
		object, err := objects.configMap(from.ConfigMapRef.Name)
		if err != nil {
			return nil, unless(from.ConfigMapRef.Optional, err)
		}
		return object.Data, nil
	case from.SecretRef != nil:
		object, err := objects.secret(from.SecretRef.Name)
		if err != nil {
			return nil, unless(from.SecretRef.Optional, err)
		}
		return texts(object.Data), nil
	default:
		return nil, fmt.Errorf("neither configMapRef nor secretRef")
	}
}

// valueFrom is nil for an optional value that is not there.
func valueFrom(config Config, pod *corev1.Pod, from *corev1.EnvVarSource, objects objects) (*string, error) {
	switch {
	case from.FieldRef != nil:
		value, err := field(config, pod, from.FieldRef)
		return &value, err
	case from.SecretKeyRef != nil:
		object, err := objects.secret(from.SecretKeyRef.Name)
		if err != nil {
			return nil, unless(from.SecretKeyRef.Optional, err)
		}
		return key("Secret "+object.Name, texts(object.Data), from.SecretKeyRef.Key, from.SecretKeyRef.Optional)
	case from.ConfigMapKeyRef != nil:
		object, err := objects.configMap(from.ConfigMapKeyRef.Name)
		if err != nil {
			return nil, unless(from.ConfigMapKeyRef.Optional, err)
		}
		return key("ConfigMap "+object.Name, object.Data, from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Optional)
	default:
		return nil, fmt.Errorf("valueFrom of an unknown kind")
	}
}

func key(object string, data map[string]string, name string, optional *bool) (*string, error) {
	if value, ok := data[name]; ok {
		return &value, nil
	}
	return nil, unless(optional, fmt.Errorf("%s has no key %s: add it", object, name))
}

func unless(optional *bool, err error) error {
	if ptr.Deref(optional, false) {
		return nil
	}
	return err
}

func texts(data map[string][]byte) map[string]string {
	texts := map[string]string{}
	for key, value := range data {
		texts[key] = string(value)
	}
	return texts
}

// field is a value of the Pod itself. In the node's network, its addresses are the node's.
func field(config Config, pod *corev1.Pod, ref *corev1.ObjectFieldSelector) (string, error) {
	path, _, err := podfields.ConvertDownwardAPIFieldLabel(ref.APIVersion, ref.FieldPath, "")
	if err != nil {
		return "", err
	}
	switch path {
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs":
		return config.Address.String(), nil
	}
	return fieldpath.ExtractFieldPathAsString(pod, path)
}
