// SPDX-License-Identifier: Apache-2.0

package rubato

// #include <stdint.h>
import "C"

import "runtime/cgo"

type goTask struct {
	function func()
	panicked any
}

// rubatoRunGo is called on a worker's own thread and stack.
//
//export rubatoRunGo
func rubatoRunGo(handle C.uintptr_t) (status C.int) {
	task := cgo.Handle(handle).Value().(*goTask)
	defer func() {
		if task.panicked = recover(); task.panicked != nil {
			status = -1
		}
	}()
	task.function()
	return 0
}
