/* whole_stack_x86_64.S: tells a block whose stack is OCaml's alone.
 *
 * The frames of OCaml code are told with the block. Below them the walk would find how Memprof came to
 * call, and OCaml's frames once more; so it ends here: this function has no caller, as the unwind
 * tables say. By its name people see in a report who told. It also asks for the library, since all
 * references in allogram.h are weak, and none of them takes a member out of liballogram.a. */
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
