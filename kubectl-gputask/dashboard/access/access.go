// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access decides who may see the page, and with whose rights it acts. There are two ways: a page for the one
// user who has started it, with a secret in its address; and a page in the cluster, to which each viewer brings a token
// of the API server.
package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
)

// Viewer is who looks at the page.
type Viewer struct {
	// Name is the user's; empty if it is not known.
	Name string
	// Clients act with the rights of the viewer.
	Clients *cluster.Clients
}

// Sender is where a request comes from.
type Sender struct {
	// Address is the IP address that the request comes from: the viewer's, or that of a proxy.
	Address string
	// Token is what the request brings; empty for nothing.
	Token string
}

// Gate admits viewers.
type Gate interface {
	// Admit returns who sends a request. It fails with a RefusedError if nobody is admitted with its token, and with a
	// BusyError if that is not asked now.
	Admit(ctx context.Context, sender Sender) (*Viewer, error)
}

// RefusedError is why a request is not admitted.
type RefusedError struct {
	// Message is a sentence for the viewer.
	Message string
	// Known is true if it is known who the viewer is, who lacks rights.
	Known bool
}

func (r *RefusedError) Error() string { return r.Message }

// BusyError is returned for a request that may be sent again in a few seconds.
type BusyError struct{}

func (*BusyError) Error() string {
	return "Too many tokens were tried a moment ago. Try again in a few seconds."
}

// Owner is the gate of a page for the user who has started it.
type Owner struct {
	viewer *Viewer
	token  string
}

// MinTokenLength is how long a secret has to be at least. A new one has 26 letters and digits, which are more than can
// be guessed.
const MinTokenLength = 20

// NewToken returns a new secret.
func NewToken() string { return rand.Text() }

// NewOwner returns the gate of a page for one user.
func NewOwner(viewer *Viewer, token string) *Owner { return &Owner{viewer: viewer, token: token} }

// Admit admits who knows the secret.
func (o *Owner) Admit(_ context.Context, sender Sender) (*Viewer, error) {
	if subtle.ConstantTimeCompare([]byte(sender.Token), []byte(o.token)) != 1 {
		return nil, &RefusedError{Message: "This address has no valid secret: open the address that `kubectl gputask dashboard` has printed."}
	}
	return o.viewer, nil
}
