/* collector_entry_x86_64.S: where a detoured function of the collector jumps to: one entry a row of collector_functions.def.
 *
 * A thread that is inside the collector already goes straight on to the original (the collector's functions call each other
 * by their public names), but for the rows that are looked at always. Else the arguments are laid into a struct ag_collector_call
 * on the stack and ag_collector_call does the rest.
 *
 * Where a recorder samples, and for it alone, the rows that nearly all calls are of pay less: the thread's skip (a subtraction and
 * a branch; a free, the filter of the sampled blocks), and the original is called with nothing around it but the mark that the
 * thread is inside, with the lowest bit set: who asks what caused a collection finds the arguments below it (collector_calls.c).
 * A recorder that is off costs a compare. What wants to see each call (a tracker, a number of a Crystal object that is still to come)
 * says so and is asked for first. */
#define RECORDER_OFF 2      /* AG_RECORDER_OFF, between those that record all and those that sample */
#define LEFT_BYTES 16       /* in struct ag_skip */
#define TRACKERS 14         /* ALLOGRAM_SAMPLES_, ALLOGRAM_FREES_ and ALLOGRAM_EACH_ */
#define ATTENTION 8         /* in struct ag_collector_thread */

    .text
    .hidden ag_collector_entries
    .hidden ag_collector_originals
    .hidden ag_collector_call
    .hidden ag_collector_thread
    .hidden ag_recorder
    .hidden ag_thread_skip
    .hidden ag_sampled_filter

    .p2align 5
    .type enter_always, @function
enter_always:
    .cfi_startproc
    sub $88, %rsp
    .cfi_adjust_cfa_offset 88
    mov %rdi, (%rsp)
    mov %rsi, 8(%rsp)
    mov %rdx, 16(%rsp)
    mov %rcx, 24(%rsp)
    mov %r8, 32(%rsp)
    mov %r9, 40(%rsp)
    lea 88(%rsp), %r11
    mov %r11, 48(%rsp)
    mov %rbp, 56(%rsp)
    mov %rax, 64(%rsp)
    mov %rsp, %rdi
    call ag_collector_call
    add $88, %rsp
    .cfi_adjust_cfa_offset -88
    ret
    .cfi_endproc
    .size enter_always, . - enter_always

    .macro begin_entry
    .org ag_collector_entries + 192 * row, 0x90 /* AG_COLLECTOR_ENTRY_BYTES: an error where one is longer */
    endbr64
    .endm

    .macro inside_goes_on
    mov ag_collector_thread@gottpoff(%rip), %r11
    cmpq $0, %fs:(%r11)
    jne 2f
    .endm

    .macro end_entry
1:
    mov $row, %eax
    jmp enter_always
2:
    jmp *(ag_collector_originals + 8 * row)(%rip)
    .set row, row + 1
    .endm

    .macro collector_entry
    begin_entry
    inside_goes_on
    end_entry
    .endm

    .macro collector_entry_always
    begin_entry
    mov $row, %eax
    jmp enter_always
    .set row, row + 1
    .endm

    /* To 1 unless the recorder samples and nobody wants to see each call; to 2 where it is off. */
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

    /* As ag_sampled_may_hold_fast of the first argument. */
    .macro unsampled_or_1f
    imul $0x10001, %rdi, %rax
    shr $20, %rax
    movzwl %ax, %eax
    lea ag_sampled_filter(%rip), %r10
    cmpb $0, (%r10, %rax)
    jne 1f
    .endm

    /* As ag_skip_take_fast. */
    .macro skip_or_1f size
    mov ag_thread_skip@gottpoff(%rip), %rax
    mov %fs:LEFT_BYTES(%rax), %r10
    sub %\size, %r10
    jbe 1f
    dec %r10
    mov %r10, %fs:LEFT_BYTES(%rax)
    .endm

    .macro call_inside size
    lea 1(%rsp), %rax
    mov %rax, %fs:(%r11)
    push %\size
    .cfi_adjust_cfa_offset 8
    push %rbp
    .cfi_adjust_cfa_offset 8
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    call *(ag_collector_originals + 8 * row)(%rip)
    mov ag_collector_thread@gottpoff(%rip), %r11
    movq $0, %fs:(%r11)
    add $24, %rsp
    .cfi_adjust_cfa_offset -24
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

    .globl ag_collector_entries
    .type ag_collector_entries, @object
    .p2align 7
ag_collector_entries:
    .set row, 0
#define AG_COLLECTOR(name, shape) collector_entry
#define AG_COLLECTOR_ALWAYS(name, shape) collector_entry_always
#define AG_COLLECTOR_OFTEN(name, shape, does) collector_entry_##does

    .cfi_startproc
#include "collector_functions.def"
    .org ag_collector_entries + 192 * row, 0x90
    .cfi_endproc
    .size ag_collector_entries, . - ag_collector_entries

    .section .note.GNU-stack, "", @progbits
