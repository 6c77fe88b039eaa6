package node

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// references are the Secrets and ConfigMaps that one Pod names. Each is watched by its name, since that is all
// that a node may do with them.
type references struct {
	namespace string
	secrets   map[string]cache.Store
	maps      map[string]cache.Store
	synced    []cache.InformerSynced
	stop      func()
	stopped   <-chan struct{}
}

// reference begins to watch; changed is called at each change of an object.
func reference(client kubernetes.Interface, pod *corev1.Pod, changed func()) *references {
	ctx, cancel := context.WithCancel(context.Background())
	r := &references{
		namespace: pod.Namespace, secrets: map[string]cache.Store{}, maps: map[string]cache.Store{},
		stop: sync.OnceFunc(cancel), stopped: ctx.Done(),
	}
	getter := client.CoreV1().RESTClient()
	podutil.VisitPodSecretNames(pod, func(name string) bool {
		r.watch(ctx, r.secrets, cache.NewListWatchFromClient(getter, "secrets", pod.Namespace,
			fields.OneTermEqualSelector(metav1.ObjectNameField, name)), name, &corev1.Secret{}, changed)
		return true
	})
	podutil.VisitPodConfigmapNames(pod, func(name string) bool {
		r.watch(ctx, r.maps, cache.NewListWatchFromClient(getter, "configmaps", pod.Namespace,
			fields.OneTermEqualSelector(metav1.ObjectNameField, name)), name, &corev1.ConfigMap{}, changed)
		return true
	})
	return r
}

func (r *references) watch(ctx context.Context, stores map[string]cache.Store, source cache.ListerWatcher, name string, kind runtime.Object, changed func()) {
	if stores[name] != nil {
		return
	}
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source,
		ObjectType:    kind,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			UpdateFunc: func(any, any) { changed() },
			DeleteFunc: func(any) { changed() },
		},
	})
	stores[name] = store
	r.synced = append(r.synced, informer.HasSynced)
	go informer.RunWithContext(ctx)
}

// wait until all objects are known, or known to be missing.
func (r *references) wait(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), r.synced...) {
		return fmt.Errorf("waiting for the Secrets and ConfigMaps of the Pod: %w", ctx.Err())
	}
	return nil
}

func (r *references) secret(name string) (*corev1.Secret, error) {
	object, err := r.find(r.secrets, "secrets", name)
	if err != nil {
		return nil, err
	}
	return object.(*corev1.Secret), nil
}

func (r *references) configMap(name string) (*corev1.ConfigMap, error) {
	object, err := r.find(r.maps, "configmaps", name)
	if err != nil {
		return nil, err
	}
	return object.(*corev1.ConfigMap), nil
}

func (r *references) find(stores map[string]cache.Store, kind, name string) (any, error) {
	if store := stores[name]; store != nil {
		if object, ok, err := store.GetByKey(r.namespace + "/" + name); ok || err != nil {
			return object, err
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}
