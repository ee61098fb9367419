(* allogram.ml: the OCaml half of the library that allogram.mli describes; allogram_stubs.c has the external functions. A session starts
   Gc.Memprof with a rate of 1, so that its callbacks report every block. *)
external session_start : string -> int -> int -> string = "allogram_ocaml_start"
external session_stop : unit -> unit = "allogram_ocaml_stop"
external trace : unit -> string = "allogram_ocaml_trace"
external snapshot_to : string -> string = "allogram_ocaml_snapshot"
external reset : unit -> unit = "allogram_ocaml_reset"
external pause : unit -> unit = "allogram_ocaml_pause"
external resume : unit -> unit = "allogram_ocaml_resume"
external mark : string -> unit = "allogram_ocaml_mark"
external register_label : string -> int = "allogram_ocaml_label"
external set_label : int -> int = "allogram_ocaml_set_label"
external alloc : Gc.Memprof.allocation -> bool -> int = "allogram_ocaml_alloc"
external promote : int -> unit = "allogram_ocaml_promote"
external dealloc : int -> unit = "allogram_ocaml_dealloc"

let tracked number = if number = 0 then None else Some number

let tracker =
  { Gc.Memprof.alloc_minor = (fun info -> tracked (alloc info false));
    alloc_major = (fun info -> tracked (alloc info true));
    promote = (fun number -> promote number; Some number);
    dealloc_minor = dealloc;
    dealloc_major = dealloc }

let frames_most = 64
let is_sampling = ref false

let start ?(output = "") ?(depth = frames_most) () =
  match session_start output depth frames_most with
  | "run" -> Ok ()
  | "" -> (
    try
      ignore (Gc.Memprof.start ~sampling_rate:1. ~callstack_size:(min depth frames_most) tracker);
      is_sampling := true;
      Ok ()
    with Failure why -> session_stop (); Error why)
  | why -> Error why

let stop () =
  if !is_sampling then begin
    is_sampling := false;
    Gc.Memprof.stop ();
    session_stop ()
  end

let snapshot output = match snapshot_to output with "" -> Ok () | why -> Error why

let with_label name run =
  let before = set_label (register_label name) in
  Fun.protect ~finally:(fun () -> ignore (set_label before)) run

let () =
  match Sys.getenv_opt "ALLOGRAM_OUTPUT" with
  | None | Some "" -> ()
  | Some output -> (
    match start ~output () with
    | Ok () -> at_exit stop
    | Error why -> prerr_endline ("allogram: " ^ why ^ ", ignoring"))
