/* attached_entry.S: the function by which the agent (the library that `allogram attach` loads into
 * a running process) replaces free. A jump that is written over the start of the libc's free leads
 * here.
 *
 * When a thread ends, the libc's allocator frees the blocks in the thread's cache, through free's
 * public address. The program has freed these blocks before, and these frees were recorded. So this
 * entry does not record calls from the allocator's own code, the addresses [ag_own_low, ag_own_low
 * + ag_own_bytes), and passes them to the original free. */
#define SLOT_FREE 3         /* index of free in ag_next, the table of the libc's functions; asserted
                             * in attached.c */

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
