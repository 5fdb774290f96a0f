// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
)

// contentSecurityPolicy lets the page load only what this server has, and talk only to it. Nothing may be written as
// HTML.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard has every response carry the headers that keep a browser from doing more with it than showing the page, and
// turns away requests that another page has a browser send: those for another host (DNS rebinding), or from another
// origin.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentSecurityPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		switch {
		case !s.isHost(r.Host):
			fail(w, http.StatusMisdirectedRequest, "This page is not served under the name "+printable(r.Host)+": open the address that was printed, or allow the name with --allowed-host.")
		case !sameOrigin(r):
			fail(w, http.StatusForbidden, "This request comes from another page.")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isHost reports whether the page is served under a name: only then the answer is for the page, and not for one whose
// name was made to point here.
func (s *Server) isHost(host string) bool {
	if len(s.options.Hosts) == 0 {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		return slices.Contains(s.options.Hosts, host) || slices.Contains(s.options.Hosts, name)
	}
	return slices.Contains(s.options.Hosts, host)
}

// sameOrigin reports whether a request does not come from another page. Browsers say where one comes from; programs
// need not.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		// Links from elsewhere may open the page, which holds no secret.
		navigation := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && !strings.HasPrefix(r.URL.Path, "/api/")
		if !navigation {
			return false
		}
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	parsed, err := url.Parse(origin)
	return err == nil && parsed.Host == r.Host
}

// admitted lets only admitted viewers through. It answers with the handler's error.
func (s *Server) admitted(next func(http.ResponseWriter, *http.Request, *access.Viewer) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		viewer, err := s.options.Gate.Admit(r.Context(), senderOf(r))
		if err != nil {
			refuse(r.Context(), w, err)
			return
		}
		if err := next(w, r, viewer); err != nil {
			failWith(w, err)
		}
	}
}

// answered answers admitted viewers with what a function returns.
func answered[T any](s *Server, find func(http.ResponseWriter, *http.Request, *access.Viewer) (T, error)) http.HandlerFunc {
	return s.admitted(func(w http.ResponseWriter, r *http.Request, viewer *access.Viewer) error {
		value, err := find(w, r, viewer)
		if err == nil {
			answer(w, value)
		}
		return err
	})
}

// senderOf returns who a request comes from. What proxies say about the address is not believed: anybody can write it.
func senderOf(r *http.Request) access.Sender {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	return access.Sender{Address: address, Token: tokenOf(r)}
}

// tokenOf returns the token of a request; empty for none. It is in a header, which no other page can have a browser
// send along.
func tokenOf(r *http.Request) string {
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func refuse(ctx context.Context, w http.ResponseWriter, err error) {
	var refusal *access.RefusedError
	var busy *access.BusyError
	switch {
	case errors.As(err, &busy):
		w.Header().Set("Retry-After", "5")
		fail(w, http.StatusTooManyRequests, busy.Error())
	case !errors.As(err, &refusal):
		klog.FromContext(ctx).Error(err, "A viewer can't be admitted")
		fail(w, http.StatusBadGateway, "Whether you may see this page can't be asked: "+err.Error())
	case refusal.Known:
		fail(w, http.StatusForbidden, refusal.Message)
	default:
		w.Header().Set("WWW-Authenticate", "Bearer")
		fail(w, http.StatusUnauthorized, refusal.Message)
	}
}

// printable returns the beginning of a text that somebody else has sent.
func printable(text string) string {
	const most = 100
	return strings.ToValidUTF8(text[:min(len(text), most)], "?")
}
