package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/secret"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/utils/ptr"
)

// payload is the files of a volume, as Kubernetes' own writer takes them.
type payload = map[string]volumeutil.FileProjection

// volumes are a Pod's, as folders and files of this machine.
type volumes struct {
	config  Config
	objects objects
	tokens  *tokens
}

func (v *volumes) folder(pod *corev1.Pod, name string) string {
	return filepath.Join(v.config.podFolder(pod.UID), "volumes", name)
}

// source is where a volume is on this machine.
func (v *volumes) source(pod *corev1.Pod, volume *corev1.Volume) string {
	if volume.HostPath != nil {
		// Nodes share this machine's files, and must not.
		return filepath.Join(v.config.Directory, v.config.Name, "host", filepath.Clean("/"+volume.HostPath.Path))
	}
	return v.folder(pod, volume.Name)
}

// write makes all volumes, or brings them up to date, and says when a token needs that again.
func (v *volumes) write(ctx context.Context, pod *corev1.Pod) (time.Time, error) {
	var next time.Time
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		due, err := v.writeOne(ctx, pod, volume)
		if err != nil {
			return next, fmt.Errorf("volume %s: %w", volume.Name, err)
		}
		if !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next, nil
}

func (v *volumes) writeOne(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) (time.Time, error) {
	if volume.HostPath != nil {
		return time.Time{}, makeHostPath(v.source(pod, volume), ptr.Deref(volume.HostPath.Type, corev1.HostPathUnset))
	}
	folder := v.folder(pod, volume.Name)
	if volume.EmptyDir != nil {
		return time.Time{}, makeFolder(folder, 0o777)
	}
	files, due, err := v.payload(ctx, pod, volume)
	if err != nil {
		return due, err
	}
	if err := makeFolder(folder, 0o755); err != nil {
		return due, err
	}
	writer, err := volumeutil.NewAtomicWriter(folder, pod.Namespace+"/"+pod.Name)
	if err != nil {
		return due, err
	}
	return due, writer.Write(files, nil)
}

// payload collects the files of a volume that comes from objects.
func (v *volumes) payload(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) (payload, time.Time, error) {
	switch source := &volume.VolumeSource; {
	case source.Secret != nil:
		files, err := v.secret(source.Secret.SecretName, source.Secret.Items, source.Secret.DefaultMode, source.Secret.Optional)
		return files, time.Time{}, err
	case source.ConfigMap != nil:
		files, err := v.configMap(source.ConfigMap.Name, source.ConfigMap.Items, source.ConfigMap.DefaultMode, source.ConfigMap.Optional)
		return files, time.Time{}, err
	case source.DownwardAPI != nil:
		files, err := downwardapi.CollectData(source.DownwardAPI.Items, pod, nil, source.DownwardAPI.DefaultMode)
		return files, time.Time{}, err
	case source.Projected != nil:
		return v.projected(ctx, pod, source.Projected)
	default:
		return nil, time.Time{}, errors.New("of an unknown kind")
	}
}

func (v *volumes) projected(ctx context.Context, pod *corev1.Pod, source *corev1.ProjectedVolumeSource) (payload, time.Time, error) {
	all, next := payload{}, time.Time{}
	for i, from := range source.Sources {
		var files payload
		var err error
		switch {
		case from.Secret != nil:
			files, err = v.secret(from.Secret.Name, from.Secret.Items, source.DefaultMode, from.Secret.Optional)
		case from.ConfigMap != nil:
			files, err = v.configMap(from.ConfigMap.Name, from.ConfigMap.Items, source.DefaultMode, from.ConfigMap.Optional)
		case from.DownwardAPI != nil:
			files, err = downwardapi.CollectData(from.DownwardAPI.Items, pod, nil, source.DefaultMode)
		case from.ServiceAccountToken != nil:
			var token token
			if token, err = v.tokens.current(ctx, pod, from.ServiceAccountToken); err == nil {
				files = payload{from.ServiceAccountToken.Path: {Data: []byte(token.value), Mode: tokenMode(pod, source.DefaultMode)}}
				if next.IsZero() || token.renew.Before(next) {
					next = token.renew
				}
			}
		default:
			err = errors.New("of an unknown kind")
		}
		if err != nil {
			return nil, next, fmt.Errorf("projected source %d: %w", i, err)
		}
		maps.Copy(all, files)
	}
	return all, next, nil
}

// tokenMode: a token that a container of another user must read is readable for all; this machine has no other.
func tokenMode(pod *corev1.Pod, mode *int32) int32 {
	for i := range pod.Spec.Containers {
		if uid := runAs(pod, &pod.Spec.Containers[i]).uid; uid != 0 {
			return ptr.Deref(mode, 0o644)
		}
	}
	return 0o600
}

func (v *volumes) secret(name string, items []corev1.KeyToPath, mode *int32, optional *bool) (payload, error) {
	object, err := v.objects.secret(name)
	if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
		return payload{}, nil
	}
	if err != nil {
		return nil, err
	}
	return secret.MakePayload(items, object, mode, ptr.Deref(optional, false))
}

func (v *volumes) configMap(name string, items []corev1.KeyToPath, mode *int32, optional *bool) (payload, error) {
	object, err := v.objects.configMap(name)
	if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
		return payload{}, nil
	}
	if err != nil {
		return nil, err
	}
	return configmap.MakePayload(items, object, mode, ptr.Deref(optional, false))
}

// makeHostPath does what the type asks for.
func makeHostPath(path string, kind corev1.HostPathType) error {
	info, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	missing := err != nil
	wrong := func(what string) error {
		return fmt.Errorf("hostPath: %s is no %s: on a stand-in node, make it there", path, what)
	}
	switch kind {
	case corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate:
		// A container runtime makes a missing folder also where no type asks for it.
		if missing {
			return os.MkdirAll(path, 0o755)
		}
		if kind == corev1.HostPathDirectoryOrCreate && !info.IsDir() {
			return wrong("folder")
		}
	case corev1.HostPathDirectory:
		if missing || !info.IsDir() {
			return wrong("folder")
		}
	case corev1.HostPathFileOrCreate:
		if missing {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			return os.WriteFile(path, nil, 0o644)
		}
		if !info.Mode().IsRegular() {
			return wrong("file")
		}
	case corev1.HostPathFile:
		if missing || !info.Mode().IsRegular() {
			return wrong("file")
		}
	case corev1.HostPathSocket:
		if missing || info.Mode()&fs.ModeSocket == 0 {
			return wrong("socket")
		}
	}
	return nil
}

// makeFolder makes it with this mode, whatever the umask.
func makeFolder(path string, mode fs.FileMode) error {
	if err := os.MkdirAll(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}
