// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"time"

	"falldio.github.io/gpu-controller/test/chaos/history"
)

// deletions is who has deleted or evicted Pods, by namespace and name. The API server's audit log says
// it, some time after etcd's watch has shown that the Pod is gone.
type deletions map[string][]deletion

type deletion struct {
	user string
	at   time.Time
}

func (d deletions) take(r *history.Request) {
	isDeletion := r.Verb == "delete" && r.Resource == "pods" || r.Resource == "pods/eviction"
	if isDeletion && r.Code < failed {
		name := r.Namespace + "/" + r.Name
		d[name] = append(d[name], deletion{user: r.User, at: r.Time})
	}
}

// deletionSlack is how much later than the API server a history may see a revision: etcd is stopped for
// seconds.
const deletionSlack = 30 * time.Second

// onlyBy reports whether a Pod of that name was deleted by this user since a time, and by nobody else.
// If nobody is known to have deleted it, that is not certain: the API server that did it may have been
// killed before it wrote its log.
func (d deletions) onlyBy(user, name string, at time.Time) bool {
	all := slices.DeleteFunc(slices.Clone(d[name]), func(one deletion) bool { return one.at.Before(at.Add(-deletionSlack)) })
	byOthers := func(one deletion) bool { return one.user != user }
	return len(all) > 0 && !slices.ContainsFunc(all, byOthers)
}
