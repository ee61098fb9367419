/* entry.S: the entries of the allocation functions that the agent (allogram's library in the
 * profiled program) exports. Each entry jumps to the C function that implements it. The entry of an
 * allocation first adds the caller's stack pointer and rbp, as they are on entry, to the arguments.
 * So the unwinder starts from the exact state of the call, without a frame of the agent, and needs
 * no frame pointer.
 *
 * Before that jump, the entries of the often called functions decide whether the call has to be
 * recorded. If the recorder (the code of the agent that records) records everything, the entry
 * continues in C. If the recorder is off, the entry only compares the recorder's state, and jumps
 * to the function of the host (the profiled program with its libraries). If the recorder samples,
 * the entry also looks for a sample: an allocation subtracts its size, plus 1, from the bytes that
 * the thread skips before its next sample, and a free looks its block up in the filter of the
 * sampled blocks. If the block is no sample, the entry jumps to the host's function (the entry of
 * an operator new calls the host's malloc instead), and has taken no conditional branch.
 *
 *     entry NAME, IMPLEMENTATION, register for sp, register for rbp (the first argument registers that NAME leaves free)
 *     entry_of_next NAME, SLOT, ..., SIZE: SLOT is NAME's index in ag_next, the table of the host's functions (asserted in start.c);
 *         SIZE is the register with the requested bytes, or `product` for calloc: rdi * rsi. If that overflows, the entry continues in C.
 *     entry_of_new, entry_of_delete: for a C++ operator. BEHIND (struct operator_behind, operators.c) describes the host's
 *         operator. If its field `kind` is OPERATOR_IS_MALLOC, this operator does nothing but call malloc or free. Only then the
 *         entry calls the host's malloc or free itself. */
#define RECORDER_OFF 2      /* AG_RECORDER_OFF: smaller states record everything, larger ones sample */
#define OPERATOR_IS_MALLOC 1
#define KIND 16             /* offset in struct operator_behind */
#define LEFT_BYTES 16       /* offset in struct ag_skip: the bytes that the thread skips */
#define SLOT_MALLOC 0
#define SLOT_FREE 3

    .macro begin name
    .globl \name
    .type \name, @function
    .globl ag_entry_\name
    .hidden ag_entry_\name
    .p2align 5
\name:
ag_entry_\name: /* a second name, which only the agent has, for attached.c, foreign_allocator.c and symbol_lookup.c */
    .cfi_startproc
    endbr64
    .endm

    .macro end name
    .cfi_endproc
    .size \name, . - \name
    .endm

    .macro go implementation, sp_register, bp_register
    mov %rsp, %\sp_register
    mov %rbp, %\bp_register
    jmp \implementation
    .endm

    .macro go_next slot
    jmp *(ag_next + 8 * \slot)(%rip)
    .endm

    /* One compare for three cases: a state below RECORDER_OFF records everything, or is not known
     * yet (jump to TARGET); RECORDER_OFF (jump to label 2); a state above samples (continue). */
    .macro sampling_or_off_2f_or target
    cmpl $RECORDER_OFF, ag_recorder(%rip)
    jb \target
    je 2f
    .endm

    /* Subtracts SIZE + 1 (each block counts one byte more, see skip.h) from the bytes that the
     * thread skips before its next sample. If a sample is due, changes nothing and jumps to label
     * 1. The C function ag_skip_take_fast does the same. rax and r11 are free here. A thread that
     * the recorder does not know yet has no bytes left to skip. */
    .macro skip_or_1f size
    mov ag_thread_skip@gottpoff(%rip), %rax
    mov %fs:LEFT_BYTES(%rax), %r11
    sub %\size, %r11
    jbe 1f
    dec %r11
    mov %r11, %fs:LEFT_BYTES(%rax)
    .endm

    /* Jumps to TARGET if the block in rdi may be a sample. The C function ag_sampled_may_hold_fast
     * computes the same. */
    .macro unsampled_or target
    imul $0x10001, %rdi, %rax
    shr $20, %rax
    movzwl %ax, %eax
    lea ag_sampled_filter(%rip), %r11
    cmpb $0, (%r11, %rax)
    jne \target
    .endm

    .macro entry_of_next name, slot, implementation, sp_register, bp_register, size
    begin \name
    sampling_or_off_2f_or 1f
    .ifc \size, product
    mov %rdi, %rax
    mul %rsi
    jo 1f
    mov %rax, %r10
    skip_or_1f r10
    .else
    skip_or_1f \size
    .endif
2:
    go_next \slot
1:
    go \implementation, \sp_register, \bp_register
    end \name
    .endm

    .macro entry name, implementation, sp_register, bp_register
    begin \name
    go \implementation, \sp_register, \bp_register
    end \name
    .endm

    /* Calls malloc instead of jumping to it, because the C function has to handle a failure of
     * malloc. A request for 0 bytes continues in C, which requests 1 byte. */
    .macro entry_of_new name, implementation, behind, sp_register, bp_register
    begin \name
    sampling_or_off_2f_or 1f
    cmpl $OPERATOR_IS_MALLOC, \behind + KIND(%rip)
    jne 1f
    test %rdi, %rdi
    jz 1f
    skip_or_1f rdi
3:
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    call *(ag_next + 8 * SLOT_MALLOC)(%rip)
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    test %rax, %rax
    jz 1f
    ret
2:
    cmpl $OPERATOR_IS_MALLOC, \behind + KIND(%rip)
    jne 1f
    test %rdi, %rdi
    jnz 3b
1:
    go \implementation, \sp_register, \bp_register
    end \name
    .endm

    .macro entry_of_delete name, implementation, behind
    begin \name
    sampling_or_off_2f_or \implementation
    cmpl $OPERATOR_IS_MALLOC, \behind + KIND(%rip)
    jne \implementation
    unsampled_or \implementation
    go_next SLOT_FREE
2:
    cmpl $OPERATOR_IS_MALLOC, \behind + KIND(%rip)
    jne \implementation
    go_next SLOT_FREE
    end \name
    .endm

    .hidden ag_recorder
    .hidden ag_thread_skip
    .hidden ag_sampled_filter
    .hidden ag_next
    .text
    entry_of_next malloc,         SLOT_MALLOC, ag_malloc, rsi, rdx, rdi
    entry_of_next calloc,         1, ag_calloc,         rdx, rcx, product
    entry_of_next memalign,       4, ag_memalign,       rdx, rcx, rsi
    entry_of_next aligned_alloc,  5, ag_aligned_alloc,  rdx, rcx, rsi
    entry_of_next posix_memalign, 6, ag_posix_memalign, rcx, r8, rdx
    entry_of_next valloc,         7, ag_valloc,         rsi, rdx, rdi
    entry_of_next pvalloc,        8, ag_pvalloc,        rsi, rdx, rdi
    entry reallocarray,   ag_reallocarray,   rcx, r8

    begin free
    sampling_or_off_2f_or ag_free
    unsampled_or ag_free
2:
    go_next SLOT_FREE
    end free

    /* realloc jumps to the host's function if neither the old block nor the new one is a sample. */
    begin realloc
    sampling_or_off_2f_or 1f
    unsampled_or 1f
    skip_or_1f rsi
2:
    go_next 2
1:
    go ag_realloc, rdx, rcx
    end realloc

    /* operator new and new[]: plain, nothrow, aligned, aligned and nothrow */
    entry_of_new _Znwm, ag_new, behind_new, rsi, rdx
    entry_of_new _Znam, ag_new_array, behind_new_array, rsi, rdx
    entry_of_new _ZnwmRKSt9nothrow_t, ag_new_nothrow, behind_new_nothrow, rdx, rcx
    entry_of_new _ZnamRKSt9nothrow_t, ag_new_array_nothrow, behind_new_array_nothrow, rdx, rcx
    entry _ZnwmSt11align_val_t,               ag_new_aligned,               rdx, rcx
    entry _ZnamSt11align_val_t,               ag_new_array_aligned,         rdx, rcx
    entry _ZnwmSt11align_val_tRKSt9nothrow_t, ag_new_aligned_nothrow,       rcx, r8
    entry _ZnamSt11align_val_tRKSt9nothrow_t, ag_new_array_aligned_nothrow, rcx, r8


    /* operator delete and delete[]: plain, sized, nothrow, aligned, sized and aligned, aligned and
     * nothrow */
    entry_of_delete _ZdlPv, ag_delete, behind_delete
    entry_of_delete _ZdaPv, ag_delete_array, behind_delete_array
    entry_of_delete _ZdlPvm, ag_delete_sized, behind_delete_sized
    entry_of_delete _ZdaPvm, ag_delete_array_sized, behind_delete_array_sized
    entry_of_delete _ZdlPvRKSt9nothrow_t, ag_delete_nothrow, behind_delete_nothrow
    entry_of_delete _ZdaPvRKSt9nothrow_t, ag_delete_array_nothrow, behind_delete_array_nothrow
    entry_of_delete _ZdlPvSt11align_val_t, ag_delete_aligned, behind_delete_aligned
    entry_of_delete _ZdaPvSt11align_val_t, ag_delete_array_aligned, behind_delete_array_aligned
    entry_of_delete _ZdlPvmSt11align_val_t, ag_delete_sized_aligned, behind_delete_sized_aligned
    entry_of_delete _ZdaPvmSt11align_val_t, ag_delete_array_sized_aligned, behind_delete_array_sized_aligned
    entry_of_delete _ZdlPvSt11align_val_tRKSt9nothrow_t, ag_delete_aligned_nothrow, behind_delete_aligned_nothrow
    entry_of_delete _ZdaPvSt11align_val_tRKSt9nothrow_t, ag_delete_array_aligned_nothrow, behind_delete_array_aligned_nothrow

    .section .note.GNU-stack, "", @progbits
