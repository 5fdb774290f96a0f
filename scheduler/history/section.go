// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// Section is one thing that is learned.
type Section struct {
	// Name is its key in the ConfigMap.
	Name string
	// Most is how large it may be, compressed, in bytes. The sum of all must be less than 1 MiB, which is the most that
	// a ConfigMap has.
	Most int
	// Encode returns it. If that is too large, it is called again with another part, until it is not: with 0.5, it
	// returns about the better half.
	Encode func(part float64) ([]byte, error)
	// Restore takes over what Encode returned in another process. What was learned since then stays.
	Restore func(data []byte) error
}

// mostDecoded bounds what is read from a section, in bytes, whatever it is compressed to.
const mostDecoded = 64 << 20

// leastPart is the smallest part of a section that is tried.
const leastPart = 1.0 / 1024

// pack encodes and compresses as much of a section as there is room for.
func (s *Section) pack() ([]byte, error) {
	for part := 1.0; part >= leastPart; part /= 2 {
		data, err := s.Encode(part)
		if err != nil {
			return nil, fmt.Errorf("section %s: %w", s.Name, err)
		}
		packed, err := compress(data)
		if err != nil {
			return nil, fmt.Errorf("section %s: %w", s.Name, err)
		}
		if len(packed) <= s.Most {
			return packed, nil
		}
	}
	return nil, fmt.Errorf("section %s: is larger than %d bytes", s.Name, s.Most)
}

// unpack restores a section.
func (s *Section) unpack(packed []byte) error {
	data, err := decompress(packed)
	if err == nil {
		err = s.Restore(data)
	}
	if err != nil {
		return fmt.Errorf("section %s: %w", s.Name, err)
	}
	return nil
}

func compress(data []byte) ([]byte, error) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(data); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

func decompress(packed []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(reader, mostDecoded+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > mostDecoded:
		return nil, fmt.Errorf("is larger than %d bytes", mostDecoded)
	}
	return data, nil
}
