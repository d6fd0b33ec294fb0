// SPDX-License-Identifier: Apache-2.0
//
// The context switch for AArch64, AAPCS64. Offsets are those of Context in context.h.
//
// Pointer authentication: return addresses that callers signed stay on their own stacks and are
// checked there against the same stack pointer, so a switch does not disturb them. Like its x86-64
// sister this file claims neither BTI nor GCS (guarded control stacks) in its notes, which keeps
// both off: the jump lands after a call, not on a landing pad.

    .text

// void rubato_context_switch(Context* from, const Context* to)
//
//   in        x0 = from, x1 = to
//   saved     x19-x30, sp, d8-d15, FPCR
//   clobbers  x9-x11 and what *to held; a caller takes all caller-saved registers as lost anyway
//   continues at the saved x30
//
// FPCR is written only when it differs: on many cores the write drains the floating-point unit,
// while reading it is cheap. It ends in `br`, not `ret`, which would be mispredicted (see
// switch_x86_64.S).
    .globl  rubato_context_switch
    .type   rubato_context_switch, %function
    .p2align 6
rubato_context_switch:
    .cfi_startproc
    mrs     x10, fpcr
    mov     x9, sp
    stp     x19, x20, [x0, #0]
    stp     x21, x22, [x0, #16]
    stp     x23, x24, [x0, #32]
    stp     x25, x26, [x0, #48]
    stp     x27, x28, [x0, #64]
    stp     x29, x30, [x0, #80]
    stp     x9,  x10, [x0, #96]
    stp     d8,  d9,  [x0, #112]
    stp     d10, d11, [x0, #128]
    stp     d12, d13, [x0, #144]
    stp     d14, d15, [x0, #160]
    ldp     x9,  x11, [x1, #96]
    ldp     x19, x20, [x1, #0]
    ldp     x21, x22, [x1, #16]
    ldp     x23, x24, [x1, #32]
    ldp     x25, x26, [x1, #48]
    ldp     x27, x28, [x1, #64]
    ldp     x29, x30, [x1, #80]
    ldp     d8,  d9,  [x1, #112]
    ldp     d10, d11, [x1, #128]
    ldp     d12, d13, [x1, #144]
    ldp     d14, d15, [x1, #160]
    mov     sp, x9
    cmp     x10, x11
    b.ne    1f
    br      x30
1:  msr     fpcr, x11
    br      x30
    .cfi_endproc
    .size   rubato_context_switch, . - rubato_context_switch

// void rubato_context_entry(): where the first switch to a fiber arrives.
//
//   in        x19 = entry, x20 = argument, sp 16-aligned (context_make put them there)
//   clobbers  everything; never returns
//
// An undefined return address tells unwinders and debuggers that this is the outermost frame.
    .globl  rubato_context_entry
    .hidden rubato_context_entry
    .type   rubato_context_entry, %function
    .p2align 4
rubato_context_entry:
    .cfi_startproc
    .cfi_undefined x30
    mov     x0, x20
    blr     x19
    brk     #1
    .cfi_endproc
    .size   rubato_context_entry, . - rubato_context_entry

    .section .note.GNU-stack, "", %progbits
