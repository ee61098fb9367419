/* whole_stack.S: reports a block whose stack has only OCaml's frames.
 *
 * The frames of OCaml code are reported with the block. Below them the walk would find the path by
 * which Memprof called, and OCaml's frames once more; so it ends here: the unwind tables say that
 * this function has no caller. Its name in a report shows the source of the block. It also links
 * the library, since all references in allogram.h are weak, and none of them pulls a member out of
 * liballogram.a. */
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
