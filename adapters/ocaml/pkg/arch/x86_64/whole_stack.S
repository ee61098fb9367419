/* whole_stack.S: reports a block with OCaml's frames as its whole stack. Called by allogram_stubs.c
 * of the OCaml library.
 *
 * The frames of OCaml code are reported together with the block. A stack walk would add the native
 * frames by which Memprof, the runtime's sampler, called the library, and OCaml's frames once more.
 * So the walk ends in this function: its unwind table says that it has no caller. Its name,
 * Gc.Memprof, is the outermost frame in reports and shows the source of the block.
 *
 * The table at the end makes the linker add the members of liballogram.a to the program: all
 * references in allogram.h are weak, and a weak reference alone adds no member. */
        .text
        .globl "Gc.Memprof"
        .hidden "Gc.Memprof"
        .type "Gc.Memprof", @function
"Gc.Memprof":
        .cfi_startproc
        .cfi_undefined rip
        endbr64
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    allogram_tell_allocs_@PLT
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
        .size "Gc.Memprof", . - "Gc.Memprof"

        .section .data.rel.ro, "aw", @progbits
        .balign 8
        .quad   allogram_session_start, allogram_register_function, allogram_register_heap
        .quad   allogram_set_label, allogram_tell_collect_, allogram_session_snapshot

        .section .note.GNU-stack, "", @progbits
