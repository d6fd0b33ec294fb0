// SPDX-License-Identifier: Apache-2.0
//
// The slow path of checkpoints that librubato-pass.so has compiled in, x86-64, System V ABI.

    .text

// void rubato_checkpoint_enter(): Clang's preserve_all.
//
//   keeps     every general register; xmm0-xmm15, and their upper halves ymm0-ymm15 if the
//             processor has them
//   clobbers  flags, the upper halves of zmm, zmm16-zmm31, mask registers, x87 and MMX registers,
//             as preserve_all has it
//   stack     about 640 bytes, besides what rubato_checkpoint_slow takes
//
// It may return on another thread. What is kept lies on the fiber's stack, so it comes along.
    .globl  rubato_checkpoint_enter
    .type   rubato_checkpoint_enter, @function
    .p2align 5
rubato_checkpoint_enter:
    .cfi_startproc
    pushq   %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    movq    %rsp, %rbp
    .cfi_def_cfa_register %rbp
    pushq   %rax
    pushq   %rcx
    pushq   %rdx
    pushq   %rsi
    pushq   %rdi
    pushq   %r8
    pushq   %r9
    pushq   %r10
    pushq   %r11
    subq    $(16 * 32), %rsp
    andq    $-32, %rsp
    cmpb    $0, rubato_checkpoint_has_avx(%rip)
    je      .Lsse
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovaps %ymm\n, (\n * 32)(%rsp)
    .endr
    vzeroupper
    call    rubato_checkpoint_slow@PLT
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovaps (\n * 32)(%rsp), %ymm\n
    .endr
    jmp     .Lrestored
.Lsse:
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movaps  %xmm\n, (\n * 16)(%rsp)
    .endr
    call    rubato_checkpoint_slow@PLT
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movaps  (\n * 16)(%rsp), %xmm\n
    .endr
.Lrestored:
    leaq    -(9 * 8)(%rbp), %rsp
    popq    %r11
    popq    %r10
    popq    %r9
    popq    %r8
    popq    %rdi
    popq    %rsi
    popq    %rdx
    popq    %rcx
    popq    %rax
    popq    %rbp
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .size   rubato_checkpoint_enter, . - rubato_checkpoint_enter

    .section .note.GNU-stack, "", @progbits
