// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"hash/fnv"
	"math"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

const (
	idlePower       = 0.1 // of the power limit
	idleTemperature = 30.0
	fullTemperature = 75.0
	memoryIsCooler  = 4.0
	copyShare       = 0.6 // memory is busy in this share of the busy time
	fullSMClock     = 1.98e9
	idleSMClock     = 0.345e9
	fullMemoryClock = 2.619e9
	reservedMemory  = 0.007 // of all memory
)

// curve is the load of one GPU: a sine between two bounds. Its integral has a closed form,
// so that the energy counter needs no state.
type curve struct {
	mean, amplitude float64
	frequency       float64 // radians per second
	phase           float64 // radians
}

func newCurve(bounds Range, period time.Duration, phase float64) curve {
	return curve{
		mean:      (bounds.Low + bounds.High) / 2,
		amplitude: (bounds.High - bounds.Low) / 2,
		frequency: 2 * math.Pi / period.Seconds(),
		phase:     phase,
	}
}

func (c curve) at(seconds float64) float64 {
	return c.mean + c.amplitude*math.Sin(c.frequency*seconds+c.phase)
}

// until returns the integral from 0.
func (c curve) until(seconds float64) float64 {
	return c.mean*seconds - c.amplitude/c.frequency*(math.Cos(c.frequency*seconds+c.phase)-math.Cos(c.phase))
}

// phase returns the phase of a GPU's curve: different for each GPU, the same after a restart.
func phase(seed uint64, uuid, what string) float64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(uuid + what)) // never fails
	const steps = 1 << 16
	return 2 * math.Pi * float64((hash.Sum64()+seed*0x9e3779b97f4a7c15)>>48) / steps
}

// epoch is the origin of the curves.
var epoch = time.Unix(0, 0)

// filled returns how much of the memory of a GPU, or of a slice, is used.
func (p *Profile) filled(uuid string) curve {
	return newCurve(*p.Load.Memory, p.Load.Period.Duration, phase(p.Load.Seed, uuid, "memory"))
}

// values returns the measurements of a GPU at a time. Energy counts from the last reset.
func (p *Profile) values(info *gpu.Info, now, reset time.Time, eccUncorrected float64) gpu.Values {
	busy := newCurve(*p.Load.Utilization, p.Load.Period.Duration, phase(p.Load.Seed, info.UUID, "utilization"))
	filled := p.filled(info.UUID)
	seconds, sinceReset := now.Sub(epoch).Seconds(), now.Sub(reset).Seconds()
	utilization, limit := busy.at(seconds), float64(p.PowerLimitWatts)

	memory := float64(info.MemoryBytes)
	reserved := math.Floor(memory * reservedMemory)
	used := math.Floor((memory - reserved) * filled.at(seconds))
	workingSeconds := busy.until(seconds) - busy.until(seconds-sinceReset)
	temperature := idleTemperature + utilization*(fullTemperature-idleTemperature)
	return gpu.Values{
		gpu.Utilization:          utilization,
		gpu.MemoryUtilization:    utilization * copyShare,
		gpu.EncoderUtilization:   0,
		gpu.DecoderUtilization:   0,
		gpu.MemoryUsed:           used,
		gpu.MemoryFree:           memory - reserved - used,
		gpu.MemoryReserved:       reserved,
		gpu.Temperature:          math.Round(temperature),
		gpu.MemoryTemperature:    math.Round(temperature - memoryIsCooler),
		gpu.Power:                limit * (idlePower + (1-idlePower)*utilization),
		gpu.PowerLimit:           limit,
		gpu.PowerManagementLimit: limit,
		gpu.Energy:               limit * (idlePower*sinceReset + (1-idlePower)*workingSeconds),
		gpu.SMClock:              idleSMClock + utilization*(fullSMClock-idleSMClock),
		gpu.MemoryClock:          fullMemoryClock,
		gpu.ThrottleReasons:      0,
		gpu.PCIeReplays:          0,
		gpu.ECCCorrected:         0,
		gpu.ECCUncorrected:       eccUncorrected,
		gpu.RemappedRows:         0,
		gpu.Processes:            math.Ceil(utilization),
	}
}

// idle changes the measurements of a GPU to those of one that nobody uses. The energy counter goes on as before:
// without a state, it does not know how long it was idle, and it must not fall.
func (p *Profile) idle(values gpu.Values) {
	values[gpu.MemoryFree] += values[gpu.MemoryUsed]
	for _, none := range []gpu.Quantity{gpu.Utilization, gpu.MemoryUtilization, gpu.MemoryUsed, gpu.Processes} {
		values[none] = 0
	}
	values[gpu.Temperature], values[gpu.MemoryTemperature] = idleTemperature, idleTemperature-memoryIsCooler
	values[gpu.Power] = float64(p.PowerLimitWatts) * idlePower
	values[gpu.SMClock] = idleSMClock
}
