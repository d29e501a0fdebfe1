package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The fields of a request, `key=value`.
type request map[string]string

func fields(words []string) request {
	fields := request{}
	for _, word := range words {
		if parts := strings.SplitN(word, "=", 2); len(parts) == 2 {
			fields[parts[0]] = parts[1]
		}
	}
	return fields
}

func (r request) number(key string) (int, error) {
	number, err := strconv.Atoi(r[key])
	if err != nil || number < 1 {
		return 0, fmt.Errorf("%s=%s is not a positive number", key, r[key])
	}
	return number, nil
}

func (r request) seconds(key string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(r[key], 64)
	if err != nil || seconds <= 0 {
		return 0, fmt.Errorf("%s=%s is not a time", key, r[key])
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// start returns when to start: now, unless the request names a time.
func (r request) start() (time.Time, error) {
	if r["start"] == "" {
		return time.Now(), nil
	}
	milliseconds, err := strconv.ParseInt(r["start"], 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("start=%s is not a time", r["start"])
	}
	return time.Unix(0, milliseconds*int64(time.Millisecond)), nil
}
