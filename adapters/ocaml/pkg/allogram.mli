(** Uses allogram from inside of an OCaml program: sets marks and labels under [allogram run], and records without it, for example in a
    static executable, into which no agent can be preloaded.

    Link it before the program's own modules: [ocamlfind ocamlopt -package allogram -linkpkg ...], or
    [OCAMLPARAM="I=DIR,cmxa=allogram.cmxa,_"] and no change of the build at all. A program that is started with [ALLOGRAM_OUTPUT]
    in its environment records from its start to its end. *)

val start : ?output:string -> ?depth:int -> unit -> (unit, string) result
(** Begins a session: from now on every block of OCaml's heap is recorded in a trace, with its stack (at most [depth] of OCaml's frames;
    64 is the default and the maximum) and its death. [output] is a file name as in [allogram run -o]: [%e] is the program, [%p] the pid.
    A file is never overwritten. Under [allogram run], which records everything already, the result is [Ok ()]. A session uses
    [Gc.Memprof]. The result is [Error] if [Gc.Memprof] or a session runs already, or if the trace cannot be written. *)

val stop : unit -> unit
(** Ends the session that [start] began and seals its trace. The program's end does the same. *)

val trace : unit -> string
(** The file name of the session's trace; [""] before the first session, and under [allogram run]. *)

val snapshot : string -> (unit, string) result
(** Writes a complete trace of the recording so far to the given file, while the session goes on. Not available under [allogram run],
    which has [--dump-at]. *)

val reset : unit -> unit
(** Drops the counts of the recording so far, and keeps the live blocks: reports begin at this moment. *)

val pause : unit -> unit
val resume : unit -> unit
(** Between [pause] and [resume] nothing is recorded. The calls do not nest. *)

val mark : string -> unit
(** Marks this moment in the trace with a name. *)

val with_label : string -> (unit -> 'a) -> 'a
(** Calls the function. Blocks that this thread allocates meanwhile, blocks of malloc as well, carry the label. The previous label is set
    again when the function returns or raises. *)
