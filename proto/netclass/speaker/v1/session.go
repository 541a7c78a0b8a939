package speakerv1

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"netclass.dev/routing"
)

const (
	// pathsPerReport keeps a report well under MaxReport.
	pathsPerReport = 4000
	// MaxPaths is the most that one session may report; more is garbage.
	MaxPaths = 200_000
	// maxDetail bounds what a peer can make us carry for people.
	maxDetail = 400
)

// FromSession writes a session as one or more reports.
func FromSession(s *routing.Session) []*Report {
	detail := s.Detail
	if len(detail) > maxDetail {
		detail = detail[:maxDetail]
	}
	for !utf8.ValidString(detail) { // protobuf refuses it, and a cut may cause it
		detail = string([]rune(detail[:len(detail)-1]))
	}
	first := &Session{
		Key:             keyMessage(s.Key),
		Begin:           true,
		State:           uint32(s.State),
		EndOfRib:        s.EndOfRIB,
		Cause:           uint32(s.Cause),
		Detail:          detail,
		PeerRestartTime: durationMessage(s.PeerRestartTime),
		Received:        s.Received,
		Doubt:           s.Doubt,
		RouterId:        addrBytes(s.RouterID),
	}
	if !s.Since.IsZero() {
		first.Since = timestamppb.New(s.Since)
	}
	var reports []*Report
	for part, paths := first, s.Paths; ; part = (&Session{Key: first.Key}) {
		n := min(len(paths), pathsPerReport)
		part.Paths = make([]*Path, n)
		for i, p := range paths[:n] {
			part.Paths[i] = &Path{Prefix: prefixMessage(p.Prefix), NextHop: addrBytes(p.NextHop), NoAdvertise: p.NoAdvertise, Notes: string(p.Notes)}
		}
		paths = paths[n:]
		part.Last = len(paths) == 0
		reports = append(reports, &Report{Report: &Report_Session{Session: part}})
		if part.Last {
			return reports
		}
	}
}

// Assembler puts sessions together from their parts. Parts of one session
// follow one another without another session's between them.
type Assembler struct {
	open    bool
	session routing.Session
}

// Add takes one part. It returns the session when the part was its last one.
func (a *Assembler) Add(m *Session) (*routing.Session, error) {
	key, err := keyFrom(m.GetKey())
	if err != nil {
		return nil, err
	}
	switch {
	case m.GetBegin() == a.open:
		return nil, fmt.Errorf("session %s: part out of order", key)
	case m.GetBegin():
		if a.session, err = sessionFrom(key, m); err != nil {
			return nil, fmt.Errorf("session %s: %w", key, err)
		}
		a.open = true
	case key != a.session.Key:
		return nil, fmt.Errorf("session %s: part inside session %s", key, a.session.Key)
	}
	if len(a.session.Paths)+len(m.GetPaths()) > MaxPaths {
		return nil, fmt.Errorf("session %s: more than %d paths", key, MaxPaths)
	}
	for _, p := range m.GetPaths() {
		path, err := pathFrom(key.Family, p)
		if err != nil {
			return nil, fmt.Errorf("session %s: %w", key, err)
		}
		a.session.Paths = append(a.session.Paths, path)
	}
	if !m.GetLast() {
		return nil, nil
	}
	a.open = false
	s := a.session
	a.session = routing.Session{}
	return &s, nil
}

func sessionFrom(key routing.SessionKey, m *Session) (s routing.Session, err error) {
	if m.GetState() > uint32(routing.Established) || m.GetCause() > uint32(routing.CauseError) {
		return s, fmt.Errorf("state %d, cause %d", m.GetState(), m.GetCause())
	}
	if m.GetSince() != nil {
		if err := m.GetSince().CheckValid(); err != nil {
			return s, err
		}
		s.Since = m.GetSince().AsTime()
	}
	if s.PeerRestartTime, err = durationFrom(m.GetPeerRestartTime()); err != nil {
		return s, err
	}
	if s.RouterID, err = addrFrom(m.GetRouterId()); err != nil || s.RouterID.IsValid() && !s.RouterID.Is4() {
		return s, fmt.Errorf("router ID of %d bytes", len(m.GetRouterId()))
	}
	s.Key, s.State, s.Cause = key, routing.SessionState(m.GetState()), routing.DownCause(m.GetCause())
	s.EndOfRIB, s.Detail, s.Received, s.Doubt = m.GetEndOfRib(), m.GetDetail(), m.GetReceived(), m.GetDoubt()
	return s, nil
}

func pathFrom(f routing.Family, m *Path) (p routing.Path, err error) {
	if p.Prefix, err = prefixFrom(m.GetPrefix()); err != nil {
		return p, err
	}
	if p.NextHop, err = addrFrom(m.GetNextHop()); err != nil {
		return p, err
	}
	if routing.FamilyOf(p.Prefix.Addr()) != f {
		return p, fmt.Errorf("prefix %s of the other family", p.Prefix)
	}
	p.NoAdvertise, p.Notes = m.GetNoAdvertise(), routing.Notes(m.GetNotes())
	return p, nil
}
