package node

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc/grpclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// agent hands each Pod of the node to a worker.
type agent struct {
	config    Config
	client    kubernetes.Interface
	addresses *addresses

	mutex   sync.Mutex
	workers map[types.NamespacedName]*worker
	running sync.WaitGroup
}

// Run is the stand-in, until the context ends: whatever fails then is no error.
func Run(ctx context.Context, config Config, client kubernetes.Interface) error {
	if err := stand(ctx, config, client); ctx.Err() == nil {
		return err
	}
	return nil
}

func stand(ctx context.Context, config Config, client kubernetes.Interface) error {
	// A gRPC probe that fails says so itself.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	if err := registerSoon(ctx, config, client); err != nil {
		return err
	}
	a := &agent{
		config: config, client: client, addresses: newAddresses(config.PodCIDR),
		workers: map[types.NamespacedName]*worker{},
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", config.Name).String()
		}))
	pods := factory.Core().V1().Pods()
	informer := pods.Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	// All that is there is known before the first Pod starts: what is left of others is removed, and no
	// address is given twice.
	existing := map[types.UID]bool{}
	for _, object := range informer.GetStore().List() {
		pod := object.(*corev1.Pod)
		existing[pod.UID] = true
		if address, err := netip.ParseAddr(pod.Status.PodIP); err == nil && !pod.Spec.HostNetwork {
			a.addresses.take(address)
		}
	}
	if err := a.sweep(ctx, existing); err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { a.updated(ctx, object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { a.updated(ctx, object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			a.deleted(object.(*corev1.Pod))
		},
	}); err != nil {
		return err
	}
	log.Printf("node %s: ready", config.Name)
	stayRegistered(ctx, config, client)
	a.running.Wait()
	return nil
}

// registerSoon waits for an API server that is starting, or for its rules of access.
func registerSoon(ctx context.Context, config Config, client kubernetes.Interface) error {
	const patience, pause = 30 * time.Second, 200 * time.Millisecond
	deadline := time.Now().Add(patience)
	for {
		err := register(ctx, config, client)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("node %s cannot register: %w", config.Name, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// sweep removes what is left of Pods that went while no stand-in ran.
func (a *agent) sweep(ctx context.Context, existing map[types.UID]bool) error {
	uids, err := a.config.recorded()
	if err != nil {
		return err
	}
	for _, uid := range uids {
		record, err := a.config.readRecord(uid)
		if err != nil {
			return fmt.Errorf("what is known of Pod %s: %w: remove its folder %s", uid, err, a.config.podFolder(uid))
		}
		if existing[uid] {
			a.addresses.take(record.Address)
			continue
		}
		log.Printf("pod %s/%s: gone while no stand-in ran", record.Namespace, record.Name)
		if err := a.config.forget(ctx, uid, record); err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) updated(ctx context.Context, pod *corev1.Pod) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	before := a.workers[key]
	if before != nil && before.uid == pod.UID {
		before.post(func() { before.update(pod) })
		return
	}
	w := newWorker(a, pod)
	if before != nil {
		// The informer need not show the end of one Pod before the next one of its name.
		before.post(before.vanish)
		w.after = before.done
	}
	a.workers[key] = w
	a.running.Go(func() {
		w.run(ctx)
		a.mutex.Lock()
		defer a.mutex.Unlock()
		if a.workers[key] == w {
			delete(a.workers, key)
		}
	})
}

func (a *agent) deleted(pod *corev1.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	w := a.workers[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
	if w != nil && w.uid == pod.UID {
		w.post(w.vanish)
	}
}
