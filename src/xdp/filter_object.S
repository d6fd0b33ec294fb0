// SPDX-License-Identifier: Apache-2.0
// The compiled filter.bpf.c, which xdp/program.cc loads.
  .section .rodata
  .balign 8
  .globl rubato_xdp_filter
rubato_xdp_filter:
  .incbin RUBATO_XDP_FILTER
  .globl rubato_xdp_filter_end
rubato_xdp_filter_end:
  .section .note.GNU-stack, "", @progbits
