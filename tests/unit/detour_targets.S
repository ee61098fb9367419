// detour_targets.S: functions for test_detour.c. A detour is a jump that is written over the
// first bytes of a function; these functions begin in all ways that matter to a detour. Each
// takes an int x; the comment gives the result, or what is special. The size of a function is
// NAME_end - NAME.

    .macro function name
    .p2align 4
    .globl \name
    .hidden \name
    .type \name, @function
\name:
    .endm
    .macro end name
    .globl \name\()_end
    .hidden \name\()_end
\name\()_end:
    .size \name, . - \name
    .endm

    .data
variable: .long 7

    .text
function starts_with_pushes /* x + 1 */
    push %rbp
    mov %rsp, %rbp
    push %rbx
    mov %edi, %ebx
    lea 1(%rbx), %eax
    pop %rbx
    pop %rbp
    ret
end starts_with_pushes

function starts_with_landing /* x + 2 */
    endbr64
    push %rbx
    lea 2(%rdi), %eax
    pop %rbx
    ret
end starts_with_landing

function starts_relative_to_itself /* x + 7; its first instruction has a rip-relative operand */
    mov variable(%rip), %eax
    add %edi, %eax
    ret
end starts_relative_to_itself

function starts_with_relative_immediate /* 1 if x is 7, otherwise 0 */
    cmpl $7, variable(%rip)
    sete %al
    cmp $7, %edi
    sete %cl
    and %cl, %al
    movzbl %al, %eax
    ret
end starts_with_relative_immediate

function starts_with_short_branch /* x ? x + 3 : -1 */
    test %edi, %edi
    je 1f
    lea 3(%rdi), %eax
    ret
1:  mov $-1, %eax
    ret
end starts_with_short_branch

function starts_with_long_branch /* x ? x + 4 : -2 */
    test %edi, %edi
    {disp32} je 1f
    lea 4(%rdi), %eax
    ret
1:  mov $-2, %eax
    ret
end starts_with_long_branch

function starts_with_count /* x ? x + 5 : -3 */
    mov %edi, %ecx
    jrcxz 1f
    lea 5(%rdi), %eax
    ret
1:  mov $-3, %eax
    ret
end starts_with_count

function starts_with_call /* x + 16 */
    call six_more
    add $10, %eax
    ret
end starts_with_call

function six_more /* x + 6; five bytes, as many as a jump has, lie before its ret */
    mov %edi, %eax
    add $6, %eax
    ret
end six_more

function is_one_jump /* x + 6 */
    {disp32} jmp six_more
end is_one_jump

function is_a_short_jump /* x + 8; the function has two bytes, and 14 bytes of padding follow it */
    jmp 1f
end is_a_short_jump
    .p2align 4
1:  lea 8(%rdi), %eax
    ret

function is_one_return /* no result */
    ret
end is_one_return
    .p2align 4

function is_too_short /* x; the next function begins right after it */
    mov %edi, %eax
    ret
end is_too_short
    mov $1, %eax
    ret

function starts_with_thread_local /* x + 9; its first instruction reads %fs:0 */
    mov %fs:0, %rax
    mov (%rax), %rax
    sub %fs:0, %rax
    lea 9(%rdi,%rax), %eax
    ret
end starts_with_thread_local

function has_a_loop_to_its_middle /* if its size is known, a detour of it is refused */
    xor %eax, %eax
1:  inc %eax
    dec %edi
    jnz 1b
    ret
end has_a_loop_to_its_middle

function has_a_late_jump_to_its_middle /* if its size is known, a detour of it is refused */
    xor %eax, %eax
1:  add $2, %eax
    nop
    cmp %edi, %eax
    jl 1b
    ret
end has_a_late_jump_to_its_middle

function jumps_to_its_start /* the larger of x and 10; counts x up by jumps to its start */
    cmp $10, %edi
    jge 1f
    inc %edi
    jmp jumps_to_its_start
1:  mov %edi, %eax
    ret
end jumps_to_its_start

function starts_with_nonsense /* its first bytes are not an instruction */
    .byte 0x06, 0x06, 0x06, 0x06, 0x06, 0x06, 0xc3
end starts_with_nonsense

function has_an_inner_landing /* a detour of it is refused */
    nop
    endbr64
    mov %edi, %eax
    ret
end has_an_inner_landing

function is_constant /* 42; its first instruction is as long as a jump */
    mov $42, %eax
    ret
end is_constant

    .section .note.GNU-stack, "", @progbits
