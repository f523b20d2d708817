//go:build linux

package faults_test

const insideEnv = "INNERD_FAULTS_BINARY"
