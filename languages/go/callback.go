// SPDX-License-Identifier: Apache-2.0

package rubato

// #include <stdint.h>
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

// rubatoRunGo is called on a worker's own thread and stack.
//
//export rubatoRunGo
func rubatoRunGo(handle unsafe.Pointer) (status C.int) {
	defer func() {
		if recover() != nil {
			status = -1
		}
	}()
	cgo.Handle(uintptr(handle)).Value().(func())()
	return 0
}
