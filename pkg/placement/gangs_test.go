// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// randomGang returns gangs of few members. Half of them have a topology.
func randomGang(d dice, roles, members int, l limits) *placement.Gang {
	g := &placement.Gang{}
	for range 1 + d.IntN(roles) {
		role := placement.Role{Shape: randomShape(d, min(4, l.cards)), Min: d.IntN(members + 1)}
		role.Max = max(1, role.Min)
		if oneIn(d, 3) {
			role.Max += d.IntN(4)
		}
		g.Roles = append(g.Roles, role)
	}
	if l.levels > 0 && oneIn(d, 2) {
		g.Level, g.Required = 1+d.IntN(l.levels), oneIn(d, 2)
	}
	if l.levels > 0 && oneIn(d, 4) {
		g.Within = strings.Join([]string{pick(d, "x", "y"), "z", "x"}[:1+d.IntN(l.levels)], "/")
	}
	for oneIn(d, 4) {
		g.Except = append(g.Except, nodeName(d.IntN(l.nodes)))
	}
	return g
}

// plans checks plans against the reference.
type plans struct {
	*updates
	gang *placement.Gang
}

// make makes a plan and checks everything that holds for any plan; nil if the gang does
// not fit.
func (p *plans) make() *placement.Plan {
	p.t.Helper()
	states := p.states()
	plan, fits, err := p.cluster.Plan(p.gang)
	if p.gang.Within != "" && search(p.cluster.Root(), p.gang.Within) == nil {
		if err == nil {
			p.t.Fatalf("there is no domain %q, but no error", p.gang.Within)
		}
		return nil
	}
	if err != nil {
		p.t.Fatalf("gang %+v: %v", p.gang, err)
	}
	p.mustBe(states, "a plan")
	if !fits {
		if plan != nil {
			p.t.Fatalf("gang %+v does not fit, but has the plan %+v", p.gang, plan)
		}
		return nil
	}
	p.check(plan)
	return plan
}

func (p *plans) check(plan *placement.Plan) {
	p.t.Helper()
	left := p.checkFeasible(plan)
	p.checkCounts(plan, left)
	domains := p.domainsOf(plan)
	if !slices.Equal(plan.Domains, domains) {
		p.t.Fatalf("gang %+v: is in the domains %v, but says %v", p.gang, domains, plan.Domains)
	}
	for _, m := range plan.Members {
		path := p.path(m.Node)
		if slices.Contains(p.gang.Except, m.Node) {
			p.t.Fatalf("gang %+v: on an excepted node: %+v", p.gang, plan.Members)
		}
		if p.gang.Within != "" && !inside(path, p.gang.Within) {
			p.t.Fatalf("gang %+v: node %s in %q is outside: %+v", p.gang, m.Node, path, plan.Members)
		}
		if p.gang.Required && p.gang.Level > 0 && (len(domains) != 1 || !inside(path, domains[0])) {
			p.t.Fatalf("gang %+v: is in the domains %v and on node %s in %q", p.gang, domains, m.Node, path)
		}
	}
}

// checkFeasible allocates what the members get, one after the other, and returns what is
// left of the nodes.
func (p *plans) checkFeasible(plan *placement.Plan) map[string]*rest {
	p.t.Helper()
	nodes := map[string]*rest{}
	for _, name := range p.want.names() {
		left := p.want.rest(name)
		nodes[name] = &left
	}
	for _, m := range plan.Members {
		s, left := &p.gang.Roles[m.Role].Shape, nodes[m.Node]
		usable := left.usable(s)
		percent := min(placement.Card, s.Percent())
		ok := left.fits(s) && m.CPU == s.CPU && m.Memory == s.Memory && slices.Equal(m.Others, s.Others) && m.Percent == percent && len(m.GPUs) == max(s.GPUs, min(1, s.Share))
		for i, card := range m.GPUs {
			ok = ok && slices.Contains(usable, card) && !slices.Contains(m.GPUs[:i], card)
		}
		if !ok {
			p.t.Fatalf("gang %+v: %+v can't be: %s is left", p.gang, m, left.signature())
		}
		left.take(m.Use)
	}
	return nodes
}

// checkCounts checks that all required members are placed, and as many optional ones as
// there is room for.
func (p *plans) checkCounts(plan *placement.Plan, left map[string]*rest) {
	p.t.Helper()
	counts := make([]int, len(p.gang.Roles))
	for _, m := range plan.Members {
		counts[m.Role]++
	}
	area := p.gang.Within
	if p.gang.Required && len(plan.Domains) > 0 && !inside(area, plan.Domains[0]) {
		area = plan.Domains[0]
	}
	for i, role := range p.gang.Roles {
		if counts[i] < role.Min || counts[i] > role.Max {
			p.t.Fatalf("gang %+v: role %d has %d members", p.gang, i, counts[i])
		}
		if counts[i] == role.Max || p.gang.Required && p.gang.Level > 0 && len(plan.Domains) == 0 {
			continue
		}
		for _, name := range p.allowed(area) {
			if left[name].fits(&role.Shape) {
				p.t.Fatalf("gang %+v: role %d has %d members, but node %s has room for another: %s", p.gang, i, counts[i], name, left[name].signature())
			}
		}
	}
}

// allowed returns the nodes of a domain to which the gang may go.
func (p *plans) allowed(domain string) []string {
	return slices.DeleteFunc(p.want.within(domain), func(name string) bool { return slices.Contains(p.gang.Except, name) })
}

func (p *plans) path(node string) string { return strings.Join(p.want.nodes[node].Domains, "/") }

// domainsOf returns the domains of the gang's level, in the order of the members.
func (p *plans) domainsOf(plan *placement.Plan) []string {
	var list []string
	for _, m := range plan.Members {
		path := p.want.nodes[m.Node].Domains
		if p.gang.Level == 0 || len(path) < p.gang.Level || path[p.gang.Level-1] == placement.Unnamed {
			continue
		}
		if name := strings.Join(path[:p.gang.Level], "/"); !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// inside reports whether a path is a domain or below it.
func inside(path, domain string) bool {
	return domain == "" || path == domain || strings.HasPrefix(path, domain+"/")
}

// areas returns the sets of nodes in one of which all members must be: several if one
// domain is required.
func (p *plans) areas() map[string][]string {
	g := p.gang
	if !g.Required || g.Level == 0 || strings.Count(g.Within, "/")+1 >= g.Level && g.Within != "" {
		return map[string][]string{g.Within: p.allowed(g.Within)}
	}
	areas := map[string][]string{}
	for _, domain := range p.want.domains(g.Level) {
		if inside(domain, g.Within) {
			areas[domain] = p.allowed(domain)
		}
	}
	return areas
}
