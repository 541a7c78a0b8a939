package inventory

import "netclass.dev/routing"

// maxReasons is how many reasons of a refusal are written.
const maxReasons = 8

// wireFailure is a routing.DrainFailure.
type wireFailure struct {
	Refused    []string      `json:"refused,omitempty"`
	Question   *wireQuestion `json:"question,omitempty"`
	Late       bool          `json:"late,omitempty"`
	Unreported bool          `json:"unreported,omitempty"`
}

// wireQuestion is a routing.BadQuestion.
type wireQuestion struct {
	Field   string `json:"field"`
	Problem string `json:"problem,omitempty"`
	Missing string `json:"missing,omitempty"`
}

func toWireFailure(f *routing.DrainFailure) wireFailure {
	w := wireFailure{Late: f.Late, Unreported: f.Unreported}
	for _, reason := range f.Refused[:min(len(f.Refused), maxReasons)] {
		w.Refused = append(w.Refused, plain(reason, maxMessage))
	}
	if q := f.Question; q != nil {
		w.Question = &wireQuestion{Field: plain(q.Field, maxName), Problem: plain(q.Problem, maxMessage), Missing: plain(q.Missing, maxName)}
	}
	return w
}

// failure is what others wrote, as bounded as what is written here.
func (w *wireFailure) failure() routing.DrainFailure {
	f := routing.DrainFailure{Late: w.Late, Unreported: w.Unreported}
	for _, reason := range w.Refused[:min(len(w.Refused), maxReasons)] {
		f.Refused = append(f.Refused, plain(reason, maxMessage))
	}
	if q := w.Question; q != nil {
		f.Question = &routing.BadQuestion{Field: plain(q.Field, maxName), Problem: plain(q.Problem, maxMessage), Missing: plain(q.Missing, maxName)}
	}
	return f
}
