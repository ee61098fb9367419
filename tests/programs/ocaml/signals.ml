(* The handler of a timer allocates eighty words (with headers) each time, at any point of the program. *)
let handled = ref 0
let rec build n acc = if n = 0 then acc else build (n - 1) ((n, string_of_int n) :: acc)

let () =
  Sys.set_signal Sys.sigalrm (Sys.Signal_handle (fun _ ->
    incr handled;
    ignore (Sys.opaque_identity (build 10 []))));
  ignore (Unix.setitimer Unix.ITIMER_REAL { Unix.it_interval = 0.001; it_value = 0.001 });
  while !handled < 20 do ignore (Sys.opaque_identity (build 100 [])) done;
  ignore (Unix.setitimer Unix.ITIMER_REAL { Unix.it_interval = 0.; it_value = 0. });
  Gc.full_major ()
