// SPDX-License-Identifier: Apache-2.0
//
// The context switch for x86-64, System V ABI. Offsets are those of Context in context.h.
//
// Shadow stacks (CET): a switch that jumps would leave the shadow stack on the old fiber, so this
// file deliberately carries no .note.gnu.property: the linker then marks the program as not made
// for shadow stacks, and the loader leaves them off. The jumps need no landing pad for the same
// reason.

    .text

// void rubato_context_switch(Context* from, const Context* to)
//
//   in        rdi = from, rsi = to
//   saved     rbx rbp r12-r15 rsp, MXCSR, x87 control word
//   clobbers  rcx and what *to held; a caller takes all caller-saved registers as lost anyway
//   continues at the address on top of the new stack, with that address popped
//
// It ends in pop and jump. A `ret` here is mispredicted almost always, because the return
// predictor expects the caller of this very call, and costs three times the whole switch.
//
// MXCSR and the x87 control word are stored and loaded unconditionally: comparing first, so that
// loads happen only after a change, waits for the store of MXCSR to come back as a load and was
// measured slower (5.4 ns against 4.0 ns on Zen 5; 2.5 ns with no floating-point state at all).
    .globl  rubato_context_switch
    .type   rubato_context_switch, @function
    .p2align 6
rubato_context_switch:
    .cfi_startproc
    stmxcsr 56(%rdi)
    fnstcw  60(%rdi)
    movq    %rsp,  0(%rdi)
    movq    %rbx,  8(%rdi)
    movq    %rbp, 16(%rdi)
    movq    %r12, 24(%rdi)
    movq    %r13, 32(%rdi)
    movq    %r14, 40(%rdi)
    movq    %r15, 48(%rdi)
    ldmxcsr 56(%rsi)
    fldcw   60(%rsi)
    movq     0(%rsi), %rsp
    movq     8(%rsi), %rbx
    movq    16(%rsi), %rbp
    movq    24(%rsi), %r12
    movq    32(%rsi), %r13
    movq    40(%rsi), %r14
    movq    48(%rsi), %r15
    popq    %rcx
    .cfi_adjust_cfa_offset -8
    .cfi_register %rip, %rcx
    jmp     *%rcx
    .cfi_endproc
    .size   rubato_context_switch, . - rubato_context_switch

// void rubato_context_entry(): where the first switch to a fiber arrives.
//
//   in        rbx = entry, r12 = argument, rsp 16-aligned (context_make put them there)
//   clobbers  everything; never returns
//
// An undefined return address tells unwinders and debuggers that this is the outermost frame.
    .globl  rubato_context_entry
    .hidden rubato_context_entry
    .type   rubato_context_entry, @function
    .p2align 4
rubato_context_entry:
    .cfi_startproc
    .cfi_undefined %rip
    movq    %r12, %rdi
    call    *%rbx
    ud2
    .cfi_endproc
    .size   rubato_context_entry, . - rubato_context_entry

    .section .note.GNU-stack, "", @progbits
