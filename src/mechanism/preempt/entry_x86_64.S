// SPDX-License-Identifier: Apache-2.0
//
// Where a thread arrives that was interrupted without a signal; the frames are described in
// kmod_abi.h and uintr_abi.h. Saves what the interrupted code may hold and a C++ function does not
// keep, calls into C++, and goes on where the thread was. All that is saved lies on the fiber's own
// stack, so the function may switch, and return on another worker.
//
// No shadow stacks, for the reason given in fiber/switch_x86_64.S.

    .section rubato_never_left, "ax", @progbits   // see never_left.h

// Saves all that the function may change, calls it with the two words that lie on the stack, the
// upper one second, and restores it. Saved are the flags, the caller-saved registers, and by XSAVE
// (XSAVEC where there is) all vector, x87, mask, tile and protection-key state that the system has
// switched on.
//
// Interrupted code may have left the x87 unit as MMX registers or with traps on, and the direction
// flag set: the function gets what the ABI promises it.
    .macro  call_and_keep_all function
    pushfq
    .cfi_adjust_cfa_offset 8
    pushq   %rax
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rax, -160
    pushq   %rcx
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rcx, -168
    pushq   %rdx
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rdx, -176
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rsi, -184
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rdi, -192
    pushq   %r8
    .cfi_adjust_cfa_offset 8
    .cfi_offset %r8, -200
    pushq   %r9
    .cfi_adjust_cfa_offset 8
    .cfi_offset %r9, -208
    pushq   %r10
    .cfi_adjust_cfa_offset 8
    .cfi_offset %r10, -216
    pushq   %r11
    .cfi_adjust_cfa_offset 8
    .cfi_offset %r11, -224
    pushq   %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rbx, -232
    cld
    movq    %rsp, %rbx
    .cfi_def_cfa_register %rbx
    subq    rubato_interrupt_state_bytes(%rip), %rsp
    andq    $-64, %rsp
    // The header of the area; XSAVE leaves what it does not write as it was.
    xorl    %eax, %eax
    movq    %rax, 512(%rsp)
    movq    %rax, 520(%rsp)
    movq    %rax, 528(%rsp)
    movq    %rax, 536(%rsp)
    movq    %rax, 544(%rsp)
    movq    %rax, 552(%rsp)
    movq    %rax, 560(%rsp)
    movq    %rax, 568(%rsp)
    orl     $-1, %eax
    orl     $-1, %edx
    cmpb    $0, rubato_interrupt_compacts(%rip)
    je      1f
    xsavec64 (%rsp)
    jmp     2f
1:  xsave64 (%rsp)
2:  fninit
    ldmxcsr default_mxcsr(%rip)
    movq    88(%rbx), %rdi
    movq    96(%rbx), %rsi
    call    \function
    orl     $-1, %eax
    orl     $-1, %edx
    xrstor64 (%rsp)
    movq    %rbx, %rsp
    .cfi_def_cfa_register %rsp
    popq    %rbx
    .cfi_adjust_cfa_offset -8
    popq    %r11
    .cfi_adjust_cfa_offset -8
    popq    %r10
    .cfi_adjust_cfa_offset -8
    popq    %r9
    .cfi_adjust_cfa_offset -8
    popq    %r8
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdx
    .cfi_adjust_cfa_offset -8
    popq    %rcx
    .cfi_adjust_cfa_offset -8
    popq    %rax
    .cfi_adjust_cfa_offset -8
    popfq
    .cfi_adjust_cfa_offset -8
    .endm

// void rubato_interrupt_entry(): not called, jumped to.
//
//   in        0(rsp) = cookie, 8(rsp) = interrupted instruction, then 128 bytes of red zone
//   clobbers  nothing
    .globl  rubato_interrupt_entry
    .hidden rubato_interrupt_entry
    .type   rubato_interrupt_entry, @function
    .p2align 6
rubato_interrupt_entry:
    .cfi_startproc
    .cfi_signal_frame
    .cfi_def_cfa %rsp, 144
    .cfi_offset %rip, -136
    call_and_keep_all rubato_interrupted
    leaq    8(%rsp), %rsp       // no flags
    .cfi_adjust_cfa_offset -8
    ret     $128
    .cfi_endproc
    .size   rubato_interrupt_entry, . - rubato_interrupt_entry

// void rubato_user_interrupt_entry(): where the processor goes at a user interrupt.
//
//   in        0(rsp) = vector, 8(rsp) = interrupted instruction, then flags and stack pointer
//   clobbers  nothing
//
// The caller's frame is not told to unwinders: where it is stands on the stack only.
    .globl  rubato_user_interrupt_entry
    .hidden rubato_user_interrupt_entry
    .type   rubato_user_interrupt_entry, @function
    .p2align 6
rubato_user_interrupt_entry:
    .cfi_startproc
    .cfi_signal_frame
    .cfi_def_cfa %rsp, 144
    .cfi_undefined %rip
    call_and_keep_all rubato_user_interrupted
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    .byte   0xf3, 0x0f, 0x01, 0xec      // uiret
    .cfi_endproc
    .size   rubato_user_interrupt_entry, . - rubato_user_interrupt_entry

    .section .rodata
    .p2align 2
default_mxcsr:
    .long   0x1f80

    .section .note.GNU-stack, "", @progbits
