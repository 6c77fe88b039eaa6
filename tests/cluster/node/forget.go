package node

import (
	"context"
	"os"

	"k8s.io/apimachinery/pkg/types"
)

// forget ends what a record says that a Pod has, and removes the Pod's folder.
func (c Config) forget(ctx context.Context, uid types.UID, r record) error {
	for _, process := range r.Processes {
		if err := process.end(); err != nil {
			return err
		}
	}
	if r.Member != "" && c.inLab(r.Member) {
		if err := c.removePod(ctx, r.Member); err != nil {
			return err
		}
	}
	return os.RemoveAll(c.podFolder(uid))
}
