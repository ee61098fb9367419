/* collector_entry.S: the code to which the detours (jumps at the start of functions) of the Boehm
 * collector's functions lead, one entry per row of collector_functions.def. The original is the
 * hooked function without its detour.
 *
 * The collector's functions call each other by their public names. So an entry jumps to the
 * original at once if the thread is inside of the collector already; the entries of AG_BDWGC_ALWAYS
 * rows do not check this. Otherwise the entry saves all general registers (hook/kept_call.h) and
 * calls ag_bdwgc_call with the number of its row. The entry saves vector registers only if the
 * collector is linked into the program: callers of a library's function do not rely on vector
 * registers, nor on rax, r10 and r11.
 *
 * The AG_BDWGC_OFTEN rows have a short path, for the time while the recorder samples. An allocation
 * subtracts its size + 1 from the bytes that the thread skips before its next sample; a free looks
 * its block up in the filter of the sampled blocks. If the block is no sample, the entry of a free
 * jumps to the original; the entry of an allocation marks the thread as inside of the collector and
 * calls the original. The mark is a stack address whose lowest bit is set. So ag_bdwgc_find_cause
 * (collector_calls.c) knows that the short path has pushed the size and rbp below this address. If
 * the recorder is off, the entry only compares the recorder's state and jumps to the original.
 *
 * The short path is not taken while a tracker (callbacks of the program, allogram.h) is active,
 * because the tracker has to see each call. If a language's adapter reads objects, that adapter has
 * to see some calls after each sampled block (LOOKS_MOST in collector_calls.c), which do not take
 * the short path either.
 *
 * The short path uses rax, r10, r11 and the flags. It saves them in the red zone (the bytes below
 * the stack pointer), and restores them before it pushes anything. */
#include "hook/arch/x86_64/kept_frame.S"

#define RECORDER_OFF 2      /* AG_RECORDER_OFF: smaller states record all, larger ones sample */
#define LEFT_BYTES 16       /* offset in struct ag_skip: the bytes that the thread skips */
#define TRACKERS 14         /* ALLOGRAM_SAMPLES_, ALLOGRAM_FREES_ and ALLOGRAM_EACH_ */
#define ATTENTION 8         /* offset in struct ag_bdwgc_thread */

    .text
    .hidden ag_bdwgc_entries
    .hidden ag_bdwgc_originals
    .hidden ag_bdwgc_call
    .hidden ag_bdwgc_keeps_vectors
    .hidden ag_call_keeping_vectors
    .hidden ag_bdwgc_thread
    .hidden ag_recorder
    .hidden ag_thread_skip
    .hidden ag_sampled_filter

kept_function collector_enter
    kept_begin
    lea -KEPT_BYTES(%rbp), %rsi
    mov %rsi, %rdi
    cmpl $0, ag_bdwgc_keeps_vectors(%rip)
    jne 1f
    call ag_bdwgc_call
    kept_return
1:
    lea ag_bdwgc_call(%rip), %rdi
    call ag_call_keeping_vectors
    kept_return
kept_end collector_enter

/* Offsets of the saved registers from the stack pointer, before the entry pushes anything */
#define WAITS_RAX -8
#define WAITS_R11 -16
#define WAITS_R10 -24
#define WAITS_FLAGS -32
#define WAITS_ROW -40

    .macro keep_scratch
    .if keeps
    mov %rax, WAITS_RAX(%rsp)
    mov %r11, WAITS_R11(%rsp)
    mov %r10, WAITS_R10(%rsp)
    lahf
    seto %al
    mov %rax, WAITS_FLAGS(%rsp)
    .endif
    .endm

    .macro restore_scratch
    .if keeps
    mov WAITS_FLAGS(%rsp), %rax
    add $0x7f, %al
    sahf
    mov WAITS_R10(%rsp), %r10
    mov WAITS_R11(%rsp), %r11
    mov WAITS_RAX(%rsp), %rax
    .endif
    .endm

    /* Makes the same stack frame as the code that ag_write_kept_frame writes for a detour that
     * keeps all registers. */
    .type enter_from_scratch, @function
    .p2align 5
enter_from_scratch:
    .set keeps, 1
    .cfi_startproc
    restore_scratch
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    lea -KEPT_BYTES(%rsp), %rsp
    mov %rax, OFFSET_RAX(%rbp)
    mov (WAITS_ROW + 8)(%rbp), %eax
    mov %rax, OFFSET_DATUM(%rbp)
    jmp collector_enter
    .cfi_endproc
    .size enter_from_scratch, . - enter_from_scratch

    .macro begin_entry
    .org 9b + 288 * row, 0x90 /* 9 is the table's label; 288 is AG_BDWGC_ENTRY_BYTES; the assembler
                               * rejects a longer entry */
    endbr64
    .endm

    .macro inside_goes_on
    keep_scratch
    mov ag_bdwgc_thread@gottpoff(%rip), %r11
    cmpq $0, %fs:(%r11)
    jne 2f
    .endm

    .macro end_entry
1:
    movl $row, WAITS_ROW(%rsp)
    jmp enter_from_scratch
2:
    restore_scratch
    jmp *(ag_bdwgc_originals + 8 * row)(%rip)
    .set row, row + 1
    .endm

    .macro collector_entry
    begin_entry
    inside_goes_on
    end_entry
    .endm

    .macro collector_entry_always
    begin_entry
    keep_scratch
    movl $row, WAITS_ROW(%rsp)
    jmp enter_from_scratch
    .set row, row + 1
    .endm

    /* Jumps to label 2 if the recorder is off. Jumps to label 1 if the recorder does not sample, or
     * if ag_bdwgc_call has to see the call (for a tracker, or for a language's adapter). Otherwise
     * continues. */
    .macro sampling_alone
    cmpq $0, %fs:ATTENTION(%r11)
    jne 1f
    cmpl $RECORDER_OFF, ag_recorder(%rip)
    jb 1f
    je 2f
    mov allogram_mode_@GOTPCREL(%rip), %rax
    testl $TRACKERS, (%rax)
    jnz 1f
    .endm

    /* Jumps to label 1 if the block in rdi may be a sample. The C function ag_sampled_may_hold_fast
     * computes the same. */
    .macro unsampled_or_1f
    imul $0x10001, %rdi, %rax
    shr $20, %rax
    movzwl %ax, %eax
    lea ag_sampled_filter(%rip), %r10
    cmpb $0, (%r10, %rax)
    jne 1f
    .endm

    /* Subtracts SIZE + 1 from the bytes that the thread skips before its next sample. If a sample
     * is due, changes nothing and jumps to label 1. The C function ag_skip_take_fast does the
     * same. */
    .macro skip_or_1f size
    mov ag_thread_skip@gottpoff(%rip), %rax
    mov %fs:LEFT_BYTES(%rax), %r10
    sub %\size, %r10
    jbe 1f
    dec %r10
    mov %r10, %fs:LEFT_BYTES(%rax)
    .endm

    /* The original starts with a stack pointer that is 32 bytes lower than that of the entry: two
     * pushes, 8 bytes of padding and the return address. So its stack is aligned as without the
     * detour. */
    .macro call_inside size
    lea 1(%rsp), %rax
    mov %rax, %fs:(%r11)
    restore_scratch
    push %\size
    .cfi_adjust_cfa_offset 8
    push %rbp
    .cfi_adjust_cfa_offset 8
    lea -8(%rsp), %rsp
    .cfi_adjust_cfa_offset 8
    call *(ag_bdwgc_originals + 8 * row)(%rip)
    lea 24(%rsp), %rsp
    .cfi_adjust_cfa_offset -24
    .if keeps
    mov %r11, WAITS_R11(%rsp)
    .endif
    mov ag_bdwgc_thread@gottpoff(%rip), %r11
    movq $0, %fs:(%r11)
    .if keeps
    mov WAITS_R11(%rsp), %r11
    .endif
    ret
    .endm

    .macro collector_entry_allocates
    begin_entry
    inside_goes_on
    sampling_alone
    skip_or_1f rdi
    call_inside rdi
    end_entry
    .endm

    .macro collector_entry_reallocates
    begin_entry
    inside_goes_on
    sampling_alone
    unsampled_or_1f
    skip_or_1f rsi
    call_inside rsi
    end_entry
    .endm

    .macro collector_entry_frees
    begin_entry
    inside_goes_on
    sampling_alone
    unsampled_or_1f
    jmp 2f
    end_entry
    .endm

#define AG_BDWGC(name, shape) collector_entry
#define AG_BDWGC_ALWAYS(name, shape) collector_entry_always
#define AG_BDWGC_OFTEN(name, shape, does) collector_entry_##does

    .globl ag_bdwgc_entries
    .type ag_bdwgc_entries, @object
    .p2align 7
ag_bdwgc_entries:
9:
    .set row, 0
    .set keeps, 1
    .cfi_startproc
#include "bdwgc/collector_functions.def"
    .org ag_bdwgc_entries + 288 * row, 0x90
    .cfi_endproc
    .size ag_bdwgc_entries, . - ag_bdwgc_entries

    /* The entries for a collector that is a library: they need not keep rax, r10 and r11. */
    .hidden ag_bdwgc_plain_entries
    .globl ag_bdwgc_plain_entries
    .type ag_bdwgc_plain_entries, @object
    .p2align 7
ag_bdwgc_plain_entries:
9:
    .set row, 0
    .set keeps, 0
    .cfi_startproc
#include "bdwgc/collector_functions.def"
    .org ag_bdwgc_plain_entries + 288 * row, 0x90
    .cfi_endproc
    .size ag_bdwgc_plain_entries, . - ag_bdwgc_plain_entries

    .section .note.GNU-stack, "", @progbits
