(** allogram from inside of an OCaml program: marks and labels under [allogram run], and recording without it, as in a static
    executable, where nothing can be preloaded.

    Link it before the program's own modules: [ocamlfind ocamlopt -package allogram -linkpkg ...], or
    [OCAMLPARAM="I=DIR,cmxa=allogram.cmxa,_"] and no change of the build at all. A program that is started with [ALLOGRAM_OUTPUT]
    in its environment records from then on, until it ends. *)

val start : ?output:string -> ?depth:int -> unit -> (unit, string) result
(** A session: every block of OCaml's heap from here on goes to a trace, with its stack (at most [depth] of OCaml's frames, 64 by
    default and at most) and its death. [output] is a file's name as that of [allogram run -o]: [%e] program, [%p] pid; a file is never
    overwritten. [Ok ()] under [allogram run] too, where all is recorded already. Takes [Gc.Memprof] for itself: [Error] where
    that runs; and where a session runs already, or the trace cannot be written. *)

val stop : unit -> unit
(** Ends the session that [start] began and seals its trace. The program's end does the same. *)

val trace : unit -> string
(** Where the trace of the session is; [""] before the first, and under [allogram run]. *)

val snapshot : string -> (unit, string) result
(** A whole trace of what was recorded so far, while the session goes on. Not under [allogram run], which has [--dump-at]. *)

val reset : unit -> unit
(** What was counted is dropped, the live blocks stay known: reports begin here. *)

val pause : unit -> unit
val resume : unit -> unit
(** Between the two nothing is told. Not nested. *)

val mark : string -> unit
(** A moment that has a name. *)

val with_label : string -> (unit -> 'a) -> 'a
(** What this thread allocates in the function, malloc's blocks as well, carries the label. The one before is set again when it
    returns or raises. *)
