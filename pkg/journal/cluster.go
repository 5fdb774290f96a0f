// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// replica is the engine's cluster at a moment of a segment, with some policy.
type replica struct {
	segment *segment
	policy  string
	cluster *placement.Cluster
	learner *packing.Policy // nil if the policy learns nothing
	// next is the index of the next change, after the number of the last one.
	next   int
	after  uint64
	digest Digest
	// nodes and pods are what is there.
	nodes map[string]placement.Node
	pods  map[string]placement.Pod
}

// newReplica returns the cluster of a checkpoint.
func newReplica(s *segment, policy string) (*replica, error) {
	priced, learner, err := policyNamed(policy)
	if err != nil {
		return nil, err
	}
	r := &replica{
		segment: s, policy: policy, cluster: placement.NewCluster(priced), learner: learner, after: s.Changes,
		nodes: map[string]placement.Node{}, pods: map[string]placement.Pod{},
	}
	r.cluster.SetPreferenceTolerance(s.Tolerance)
	for _, node := range s.nodes {
		if err := r.setNode(node); err != nil {
			return nil, err
		}
	}
	for _, pod := range s.pods {
		if err := r.place(pod); err != nil {
			return nil, err
		}
	}
	if learner == nil || s.Policy != policy || s.Memory == nil {
		return r, nil
	}
	memory, err := s.Memory.Engine()
	if err != nil {
		return nil, fmt.Errorf("checkpoint: memory: %w", err)
	}
	if err := learner.Recall(r.cluster, memory); err != nil {
		return nil, fmt.Errorf("checkpoint: memory: %w", err)
	}
	return r, nil
}

// advance applies the changes up to a number.
func (r *replica) advance(after uint64) error {
	for r.after < after {
		if r.next == len(r.segment.changes) {
			return fmt.Errorf("change %d is missing", r.after+1)
		}
		line := r.segment.changes[r.next]
		if line.N != r.after+1 {
			return fmt.Errorf("change %d is missing", r.after+1)
		}
		if err := r.apply(line); err != nil {
			return fmt.Errorf("change %d: %w", line.N, err)
		}
		r.next++
		r.after++
	}
	return nil
}

func (r *replica) apply(line *Line) error {
	switch {
	case line.Node != nil:
		return r.setNode(line.Node)
	case line.Gone != "":
		return r.removeNode(line.Gone)
	case line.Pod != nil:
		return r.place(line.Pod)
	case line.Left != "":
		return r.remove(line.Left)
	default:
		return r.learn(line.Learned)
	}
}

func (r *replica) setNode(described *Node) error {
	node := described.Engine()
	if err := r.cluster.SetNode(node); err != nil {
		return err
	}
	if before, known := r.nodes[node.Name]; known {
		r.digest.RemoveNode(&before)
	}
	r.nodes[node.Name] = node
	r.digest.AddNode(&node)
	return nil
}

func (r *replica) removeNode(name string) error {
	before, known := r.nodes[name]
	if !known {
		return fmt.Errorf("there is no node %q to remove", name)
	}
	r.cluster.RemoveNode(name)
	delete(r.nodes, name)
	r.digest.RemoveNode(&before)
	return nil
}

func (r *replica) place(described *Pod) error {
	pod := described.Engine()
	if err := r.cluster.Place(pod); err != nil {
		return err
	}
	r.pods[pod.Name] = pod
	r.digest.AddPod(&pod)
	return nil
}

func (r *replica) remove(name string) error {
	before, known := r.pods[name]
	if !known {
		return fmt.Errorf("there is no Pod %q to remove", name)
	}
	r.cluster.Remove(name)
	delete(r.pods, name)
	r.digest.RemovePod(&before)
	return nil
}

func (r *replica) learn(learned *Learned) error {
	if r.learner == nil {
		return nil
	}
	shape, err := learned.Shape.Engine()
	if err != nil {
		return err
	}
	request := r.cluster.Request(shape)
	if learned.Ending {
		r.learner.LearnEnding(r.cluster, request)
	} else {
		r.learner.Learn(r.cluster, request)
	}
	return nil
}

// gangOf returns what a question asks for.
func (r *replica) gangOf(q *Question) (*placement.Gang, error) {
	gang := &placement.Gang{Level: q.Level, Required: q.Required, Within: q.Within, Except: q.Except}
	for i := range q.Roles {
		role := &q.Roles[i]
		if role.Shape == nil {
			return nil, fmt.Errorf("roles[%d]: shape: is missing", i)
		}
		shape, err := role.Shape.Engine()
		if err != nil {
			return nil, fmt.Errorf("roles[%d]: %w", i, err)
		}
		gang.Roles = append(gang.Roles, placement.Role{Shape: shape, Min: role.Min, Max: role.Max})
	}
	if len(gang.Roles) == 0 {
		return nil, fmt.Errorf("roles: at least one is needed")
	}
	if len(q.Only) > 0 {
		gang.Except = append(gang.Except[:len(gang.Except):len(gang.Except)], r.others(q.Only)...)
	}
	if len(q.Judgements) > 0 {
		gang.Checker = newRecorded(q.Judgements)
	}
	return gang, nil
}

// others returns the names of all other nodes.
func (r *replica) others(than []string) (names []string) {
	known := make(map[string]bool, len(than))
	for _, name := range than {
		known[name] = true
	}
	for name := range r.nodes {
		if !known[name] {
			names = append(names, name)
		}
	}
	return names
}

// try calls do in the cluster as it was for a question.
func (r *replica) try(q *Question, do func() error) (err error) {
	r.cluster.Try(func() bool {
		for i := range q.Trial {
			one := &q.Trial[i]
			if one.Placed == nil {
				r.cluster.Remove(one.Removed)
				continue
			}
			if err = r.cluster.Place(one.Placed.Engine()); err != nil {
				return false
			}
		}
		err = do()
		return false
	})
	return err
}

// ask asks a question again. The answer has no shapes.
func (r *replica) ask(q *Question) (answer *Question, err error) {
	gang, err := r.gangOf(q)
	if err != nil {
		return nil, err
	}
	answer = &Question{Kind: q.Kind, After: q.After}
	err = r.try(q, func() error {
		switch q.Kind {
		case Plan:
			plan, fits, err := r.cluster.Plan(gang)
			if err != nil {
				return err
			}
			if answer.Fits = fits; fits {
				answer.SetPlan(plan)
			}
		case Rank:
			answer.SetRanked(r.cluster.Rank(r.cluster.Request(gang.Roles[0].Shape), r.cluster.Root()), gang.Except)
		case On:
			place, fits := r.cluster.On(q.Node, r.cluster.Request(gang.Roles[0].Shape))
			if answer.Fits = fits; fits {
				answer.Places = []Place{placeOf(0, &place)}
			}
		default:
			return fmt.Errorf("kind: there is no kind of question %q", q.Kind)
		}
		answer.SetSearch(r.cluster.LastSearch())
		return nil
	})
	return answer, err
}

// SetPlan sets the answer to a question about a gang that fits.
func (q *Question) SetPlan(plan *placement.Plan) {
	q.Fits, q.Domains = true, plan.Domains
	q.Places = make([]Place, len(plan.Members))
	for i := range plan.Members {
		q.Places[i] = placeOf(plan.Members[i].Role, &plan.Members[i].Place)
	}
}

func placeOf(role int, place *placement.Place) Place {
	return Place{Role: role, Node: place.Node, GPUs: place.GPUs, Percent: place.Percent, Cost: place.Cost}
}

// SetPlace sets the answer to a question about a node that has room.
func (q *Question) SetPlace(place *placement.Place) {
	q.Fits, q.Places = true, []Place{placeOf(0, place)}
}

// SetRanked sets the answer to a question about the order of the nodes, of which some are left out.
func (q *Question) SetRanked(list []placement.Ranked, except []string) {
	left := make(map[string]bool, len(except))
	for _, name := range except {
		left[name] = true
	}
	for _, one := range list {
		if left[one.Node] {
			continue
		}
		if q.Ranked++; len(q.Best) < MaxRanked {
			q.Best = append(q.Best, Candidate{Node: one.Node, Cost: one.Cost})
		}
	}
	q.Fits = q.Ranked > 0
}

// SetSearch sets how much was looked at.
func (q *Question) SetSearch(search placement.Search) { q.Nodes, q.Room = search.Nodes, search.Room }

// SetTrial records what was tried.
func (q *Question) SetTrial(changes []placement.TrialChange) {
	if len(changes) > MaxTrial {
		q.Cut = fmt.Sprintf("more than %d Pods were tried with it", MaxTrial)
		return
	}
	for i := range changes {
		if changes[i].Placed {
			q.Trial = append(q.Trial, Trial{Placed: PodOf(changes[i].Pod)})
		} else {
			q.Trial = append(q.Trial, Trial{Removed: changes[i].Pod.Name})
		}
	}
}

// SetGang records what is asked for. The nodes that are left out are at most MaxExcept.
func (q *Question) SetGang(gang *placement.Gang, only []string) {
	q.Level, q.Required, q.Within, q.Only = gang.Level, gang.Required, gang.Within, only
	q.Roles = make([]Role, len(gang.Roles))
	for i := range gang.Roles {
		role := &gang.Roles[i]
		q.Roles[i] = Role{Shape: ShapeOf(&role.Shape), Min: role.Min, Max: role.Max}
	}
	if q.Except = gang.Except; len(gang.Except) > MaxExcept {
		q.Except, q.Cut = nil, fmt.Sprintf("it left out more than %d nodes", MaxExcept)
	}
}
