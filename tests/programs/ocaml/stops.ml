(* Stops a Memprof profile that it never started. This is an error, which it prints. *)
let () =
  let made = List.init 1000 (fun i -> (i, i)) in
  (try Gc.Memprof.stop () with Failure why -> print_endline why);
  Printf.printf "%d\n" (List.length made)
