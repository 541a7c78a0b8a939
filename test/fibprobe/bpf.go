package fibprobe

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"netclass.dev/routing/fib"
)

// struct bpf_fib_lookup (linux/bpf.h): its size, and the offsets of its fields.
const (
	paramsLen     = 64
	paramsFamily  = 0
	paramsIfindex = 8
	paramsMetric  = 12
	paramsSrc     = 16
	paramsDst     = 32
	paramsMark    = 52
)

// Flags of bpf_fib_lookup.
const (
	flagOutput       = 1 << 1
	flagSkipNeighbor = 1 << 2 // Linux 6.3
	flagMark         = 1 << 5 // Linux 6.10
)

// Where the program's packet carries its order: behind an Ethernet header, as
// PROG_TEST_RUN wants one, the parameters and then the flags.
const (
	ethernetLen = 14
	orderLen    = paramsLen + 8
)

// lookupProgram calls bpf_fib_lookup with the parameters that the packet
// carries, writes back what the helper made of them, and returns its answer.
func lookupProgram() *ebpf.ProgramSpec {
	order := func(r asm.Register) []asm.Instruction {
		return []asm.Instruction{asm.Mov.Reg(r, asm.RFP), asm.Add.Imm(r, -orderLen)}
	}
	var in asm.Instructions
	in = append(in, asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R2, ethernetLen))
	in = append(in, order(asm.R3)...)
	in = append(in, asm.Mov.Imm(asm.R4, orderLen), asm.FnSkbLoadBytes.Call())
	in = append(in, asm.JNE.Imm(asm.R0, 0, "end"), asm.Mov.Reg(asm.R1, asm.R6))
	in = append(in, order(asm.R2)...)
	in = append(in,
		asm.Mov.Imm(asm.R3, paramsLen),
		asm.LoadMem(asm.R4, asm.RFP, paramsLen-orderLen, asm.Word),
		asm.FnFibLookup.Call(),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, ethernetLen),
	)
	in = append(in, order(asm.R3)...)
	in = append(in,
		asm.Mov.Imm(asm.R4, orderLen), asm.Mov.Imm(asm.R5, 0), asm.FnSkbStoreBytes.Call(),
		asm.Mov.Reg(asm.R0, asm.R7),
		asm.Return().WithSymbol("end"),
	)
	return &ebpf.ProgramSpec{Name: "fibprobe", Type: ebpf.SchedCLS, Instructions: in, License: "Dual MIT/GPL"}
}

// The answers of bpf_fib_lookup (BPF_FIB_LKUP_RET_*).
const (
	retSuccess = iota
	retBlackhole
	retUnreachable
	retProhibit
	retNotForwarded
	retForwardingDisabled
	retUnsupportedLWT
	retNoNeighbor
	retFragNeeded
)

var retNames = [...]string{
	"SUCCESS", "BLACKHOLE", "UNREACHABLE", "PROHIBIT", "NOT_FWDED", "FWD_DISABLED", "UNSUPP_LWT", "NO_NEIGH", "FRAG_NEEDED",
}

// BPF asks bpf_fib_lookup: about a packet that arrived by f.IIF, or without one
// about a packet sent by f.OIF (BPF_FIB_LOOKUP_OUTPUT), or with neither about
// one that came from lo, which is how the stack looks up what it makes itself.
func (p *Prober) BPF(f fib.Flow) (Answer, error) {
	a, err := p.bpf(f)
	if err != nil {
		return Answer{}, fmt.Errorf("bpf_fib_lookup of %s: %w", f.Dst, err)
	}
	return a, nil
}

func (p *Prober) bpf(f fib.Flow) (Answer, error) {
	link, flags := f.IIF, uint32(flagSkipNeighbor)
	switch {
	case link == "" && f.OIF != "":
		link, flags = f.OIF, flags|flagOutput
	case link == "":
		link = "lo"
	}
	index, err := p.index(link)
	if err != nil {
		return Answer{}, err
	}
	order := make([]byte, ethernetLen+orderLen)
	params := order[ethernetLen:]
	params[paramsFamily] = 10 // AF_INET6
	if f.Dst.Is4() {
		params[paramsFamily] = 2
	}
	binary.NativeEndian.PutUint32(params[paramsIfindex:], index)
	copy(params[paramsSrc:], f.Src.AsSlice())
	copy(params[paramsDst:], f.Dst.AsSlice())
	if f.Mark != 0 {
		flags |= flagMark
		binary.NativeEndian.PutUint32(params[paramsMark:], f.Mark)
	}
	ret, err := p.call(order, flags)
	if err != nil {
		return Answer{}, err
	}
	return p.bpfAnswer(f, ret, params)
}

// call runs the program and returns the helper's answer; order then holds what
// the helper wrote. A kernel that does not know BPF_FIB_LOOKUP_SKIP_NEIGH
// refuses it, and is asked without.
func (p *Prober) call(order []byte, flags uint32) (int32, error) {
	const einval = -22
	in := append([]byte(nil), order...)
	for {
		binary.NativeEndian.PutUint32(in[ethernetLen+paramsLen:], flags)
		var ret uint32
		var err error
		p.run(func() { ret, err = p.prog.Run(&ebpf.RunOptions{Data: in, DataOut: order}) })
		if err != nil {
			return 0, err
		}
		if int32(ret) != einval || flags&flagSkipNeighbor == 0 {
			return int32(ret), nil
		}
		flags &^= flagSkipNeighbor
	}
}

func (p *Prober) bpfAnswer(f fib.Flow, ret int32, params []byte) (Answer, error) {
	if ret < 0 || int(ret) >= len(retNames) {
		return Answer{}, fmt.Errorf("the helper answers %d", ret)
	}
	a := Answer{Code: retNames[ret]}
	switch ret {
	case retSuccess, retNoNeighbor, retFragNeeded:
		a.Action = fib.Forward
	case retBlackhole:
		a.Action = fib.Blackhole
	case retUnreachable:
		a.Action = fib.Unreachable
	case retProhibit:
		a.Action = fib.Prohibit
	case retNotForwarded:
		a.Action = fib.NoRoute
	default:
		return Answer{}, fmt.Errorf("the helper answers %s", a.Code)
	}
	if a.Action != fib.Forward {
		return a, nil
	}
	a.Metric = binary.NativeEndian.Uint32(params[paramsMetric:])
	via, _ := netip.AddrFromSlice(params[paramsDst:][:f.Dst.BitLen()/8])
	if via != f.Dst {
		a.Via = via
	}
	var err error
	a.Link, err = p.name(binary.NativeEndian.Uint32(params[paramsIfindex:]))
	return a, err
}
