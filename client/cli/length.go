package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// length is a flag's value: a length of time.
type length time.Duration

// String implements flag.Value; the zero value is none.
func (l *length) String() string {
	if *l == 0 {
		return ""
	}
	return time.Duration(*l).String()
}

// Set implements flag.Value.
func (l *length) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		if _, number := strconv.ParseFloat(s, 64); number == nil {
			return fmt.Errorf("it has no unit: write %ss for seconds, %sm for minutes", s, s)
		}
		return errors.New("must be a time with its unit, as 500ms, 10s or 1m30s")
	}
	*l = length(d)
	return nil
}

// Type implements pflag.Value.
func (l *length) Type() string { return "DURATION" }
