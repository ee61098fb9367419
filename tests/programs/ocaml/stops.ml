(* Stops a Memprof that it never started: an error, of which it tells. *)
let () =
  let made = List.init 1000 (fun i -> (i, i)) in
  (try Gc.Memprof.stop () with Failure why -> print_endline why);
  Printf.printf "%d\n" (List.length made)
