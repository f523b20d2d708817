//go:build !linux

package proc

import (
	"errors"
	"os"
)

func nameOf(*os.File) (string, error) { return "", errors.ErrUnsupported }
