/* attached_entry_x86_64.S: free, where a detour leads to it in a process that is attached to.
 *
 * The libc's allocator frees by free's public address what is no block of anybody any more: when a thread ends, the chunks
 * that it kept for its next mallocs, whose free was told when it happened. Who calls from [ag_own_low, + ag_own_bytes) is that
 * allocator. */
#define SLOT_FREE 3         /* of ag_next, asserted in attached.c */

    .hidden ag_own_low
    .hidden ag_own_bytes
    .hidden ag_next
    .hidden ag_entry_free
    .text
    .globl ag_entry_attached_free
    .hidden ag_entry_attached_free
    .type ag_entry_attached_free, @function
    .p2align 5
ag_entry_attached_free:
    .cfi_startproc
    endbr64
    mov (%rsp), %rax
    sub ag_own_low(%rip), %rax
    cmp ag_own_bytes(%rip), %rax
    jae ag_entry_free
    jmp *(ag_next + 8 * SLOT_FREE)(%rip)
    .cfi_endproc
    .size ag_entry_attached_free, . - ag_entry_attached_free

    .section .note.GNU-stack, "", @progbits
