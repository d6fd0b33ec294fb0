// SPDX-License-Identifier: Apache-2.0
//
// The part of state_probe.cc that holds a pattern in every register. Offsets are those of
// ProbeState there.

    .text

// void rubato_state_probe(const ProbeState* in, ProbeState* out, uint64_t rounds)
//
//   in        rdi = in, rsi = out, rdx = rounds, at least 1
//   clobbers  what a C function may; leaves MXCSR and the x87 control word at their defaults
    .globl  rubato_state_probe
    .hidden rubato_state_probe
    .type   rubato_state_probe, @function
    .p2align 4
rubato_state_probe:
    pushq   %rbx
    pushq   %rbp
    pushq   %r12
    pushq   %r13
    pushq   %r14
    pushq   %r15
    pushq   %rsi                // out

    cmpq    $0, 248(%rdi)
    je      1f
    .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovdqu 256+32*\n(%rdi), %ymm\n
    .endr
    jmp     2f
1:  .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movups  256+32*\n(%rdi), %xmm\n
    .endr
2:  fninit
    fldcw   804(%rdi)
    fldt    768(%rdi)
    fldt    784(%rdi)
    ldmxcsr 800(%rdi)
    .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movq    96+8*\n(%rdi), %rax
    movq    %rax, -8-8*\n(%rsp)
    .endr

    movq    224(%rdi), %rax
    xorl    %ecx, %ecx
    movq    0(%rdi), %rbx
    movq    8(%rdi), %rbp
    movq    24(%rdi), %rsi
    movq    32(%rdi), %r8
    movq    40(%rdi), %r9
    movq    48(%rdi), %r10
    movq    56(%rdi), %r11
    movq    64(%rdi), %r12
    movq    72(%rdi), %r13
    movq    80(%rdi), %r14
    movq    88(%rdi), %r15
    movq    16(%rdi), %rdi
    std

    // The carry crosses an instruction that does nothing, where an interrupt fits in.
3:  addq    %rbx, %rax
    nop
    adcq    $0, %rcx
    decq    %rdx
    jnz     3b

    xchgq   %rdi, (%rsp)        // rdi = out; its pattern lies in out's place
    movq    %rax, 224(%rdi)
    movq    %rcx, 232(%rdi)
    movq    %rbx, 0(%rdi)
    movq    %rbp, 8(%rdi)
    movq    %rsi, 24(%rdi)
    movq    %r8, 32(%rdi)
    movq    %r9, 40(%rdi)
    movq    %r10, 48(%rdi)
    movq    %r11, 56(%rdi)
    movq    %r12, 64(%rdi)
    movq    %r13, 72(%rdi)
    movq    %r14, 80(%rdi)
    movq    %r15, 88(%rdi)
    .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movq    -8-8*\n(%rsp), %rax
    movq    %rax, 96+8*\n(%rdi)
    .endr
    popq    16(%rdi)            // the red zone is read
    pushfq
    popq    240(%rdi)
    cld
    stmxcsr 800(%rdi)
    fnstcw  804(%rdi)
    fstpt   784(%rdi)
    fstpt   768(%rdi)
    cmpq    $0, 248(%rdi)
    je      4f
    .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovdqu %ymm\n, 256+32*\n(%rdi)
    .endr
    vzeroupper
    jmp     5f
4:  .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movups  %xmm\n, 256+32*\n(%rdi)
    .endr
5:  fninit
    ldmxcsr default_mxcsr(%rip)
    popq    %r15
    popq    %r14
    popq    %r13
    popq    %r12
    popq    %rbp
    popq    %rbx
    ret
    .size   rubato_state_probe, . - rubato_state_probe

    .section .rodata
    .p2align 2
default_mxcsr:
    .long   0x1f80

    .section .note.GNU-stack, "", @progbits
