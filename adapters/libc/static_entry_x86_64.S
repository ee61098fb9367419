/* static_entry_x86_64.S: where a detoured function of the program jumps to: one entry a row of static_functions.def.
 *
 * Its callers may stand in the same object, even in the same source file. Then the compiler knows what the function does to
 * registers and stack, and a call is more than the ABI says:
 *
 *     -fipa-ra               a register that the function leaves alone keeps its value: argument registers, r10, r11, vector
 *                            registers; rax too where nothing is returned
 *     -fipa-stack-alignment  the stack is aligned to 8 bytes where the function needs no more
 *
 * So the entry keeps all general registers and the flags but what the original itself changes, and aligns the stack. Vector
 * registers are kept by not using them: what runs between here and the original, and behind it, is compiled for general
 * registers alone (tools/check_vectors.py). The original is called with all registers as its caller had them; what it returns in
 * rax and rdx stays.
 *
 *     caller's sp ->  return address    [rbp + 8]
 *                     caller's rbp      [rbp]
 *                     struct ag_static_call (static_allocator.c), from its last member downward
 *
 * Two calls, and not one in between: then the original finds nothing but registers and stack that it knows. */
#define CALL_BYTES 112          /* sizeof(struct ag_static_call) without the last two members */
#define OFFSET_ORIGINAL -8      /* from rbp */
#define OFFSET_ROW -16
#define OFFSET_RAX -24
#define OFFSET_R11 -32
#define OFFSET_R10 -40
#define OFFSET_R9 -48
#define OFFSET_R8 -56
#define OFFSET_RCX -64
#define OFFSET_RDX -72
#define OFFSET_RSI -80
#define OFFSET_RDI -88
#define OFFSET_FLAGS -96
#define OFFSET_RESULT -104      /* of the original: rax */
#define OFFSET_RESULT_2 -112    /* rdx */

    .text
    .hidden ag_static_begin
    .hidden ag_static_end

    .macro keep_registers
    mov %rax, OFFSET_RAX(%rbp)
    mov %r11, OFFSET_R11(%rbp)
    mov %r10, OFFSET_R10(%rbp)
    mov %r9, OFFSET_R9(%rbp)
    mov %r8, OFFSET_R8(%rbp)
    mov %rcx, OFFSET_RCX(%rbp)
    mov %rdx, OFFSET_RDX(%rbp)
    mov %rsi, OFFSET_RSI(%rbp)
    mov %rdi, OFFSET_RDI(%rbp)
    lahf
    seto %al
    mov %rax, OFFSET_FLAGS(%rbp)
    .endm

    .macro restore_flags
    mov OFFSET_FLAGS(%rbp), %rax
    add $0x7f, %al /* sets the overflow flag where al is 1 */
    sahf
    .endm

    .macro restore_registers_but_rax_rdx
    mov OFFSET_R11(%rbp), %r11
    mov OFFSET_R10(%rbp), %r10
    mov OFFSET_R9(%rbp), %r9
    mov OFFSET_R8(%rbp), %r8
    mov OFFSET_RCX(%rbp), %rcx
    mov OFFSET_RSI(%rbp), %rsi
    mov OFFSET_RDI(%rbp), %rdi
    .endm

    .type static_enter, @function
    .p2align 5
static_enter:
    .cfi_startproc
    .cfi_def_cfa %rbp, 16
    .cfi_offset %rbp, -16
    keep_registers
    lea -CALL_BYTES(%rbp), %rdi
    mov %rdi, %rsp
    and $-16, %rsp
    call ag_static_begin
    test %al, %al
    jz 1f
    restore_registers_but_rax_rdx
    mov OFFSET_RDX(%rbp), %rdx
    mov OFFSET_RAX(%rbp), %rax
    call *OFFSET_ORIGINAL(%rbp)
    mov %rax, OFFSET_RESULT(%rbp)
    mov %rdx, OFFSET_RESULT_2(%rbp)
    lea -CALL_BYTES(%rbp), %rdi
    call ag_static_end
    restore_flags
    restore_registers_but_rax_rdx
    mov OFFSET_RESULT_2(%rbp), %rdx
    mov OFFSET_RESULT(%rbp), %rax
    mov %rbp, %rsp
    pop %rbp
    .cfi_remember_state
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    ret
    .cfi_restore_state
1: /* nothing to do behind the original: it returns to the caller */
    restore_flags
    restore_registers_but_rax_rdx
    mov OFFSET_RDX(%rbp), %rdx
    mov OFFSET_RAX(%rbp), %rax
    mov %rbp, %rsp
    pop %rbp
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    jmp *(OFFSET_ORIGINAL - 8)(%rsp) /* in the red zone */
    .cfi_endproc
    .size static_enter, . - static_enter

    .macro static_entry
    .p2align 5 /* AG_STATIC_ENTRY_BYTES */
    .cfi_startproc
    endbr64
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    lea -CALL_BYTES(%rsp), %rsp /* leaves the flags alone */
    movq $row, OFFSET_ROW(%rbp)
    jmp static_enter
    .cfi_endproc
    .set row, row + 1
    .endm

    .globl ag_static_entries
    .hidden ag_static_entries
    .type ag_static_entries, @object
    .p2align 5
ag_static_entries:
    .set row, 0
#define AG_STATIC(name, shape, via) static_entry
#define AG_STATIC_OTHERS
#include "static_functions.def"
    .size ag_static_entries, . - ag_static_entries

    .section .note.GNU-stack, "", @progbits
