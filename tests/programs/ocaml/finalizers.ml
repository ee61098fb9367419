(* 100 blocks with finalizers that allocate a pair each; an alarm that allocates a pair at each major cycle; a pair at exit. *)
let seen = ref 0
let keep : (int * int) list ref = ref []
let finalised (n : int ref) = incr seen; keep := (!n, !n) :: !keep [@@inline never]
let at_cycle () = keep := Sys.opaque_identity (1, 2) :: !keep [@@inline never]
let last () = keep := Sys.opaque_identity (!seen, 3) :: !keep; if !seen <> 100 then print_endline "not all" [@@inline never]

let make () = for i = 1 to 100 do Gc.finalise finalised (ref i) done [@@inline never]

let () =
  at_exit last;
  ignore (Gc.create_alarm at_cycle);
  make ();
  Gc.full_major ();
  Gc.full_major ()
