(* A program that uses Memprof, OCaml's own profiler. Prints the number of allocations that Memprof reported. *)
let () =
  let seen = ref 0 in
  let first = List.init 1000 (fun i -> (i, i)) in
  Gc.Memprof.start ~sampling_rate:1.
    { Gc.Memprof.null_tracker with alloc_minor = (fun _ -> incr seen; None) };
  let second = List.init 10 string_of_int in
  Gc.Memprof.stop ();
  Printf.printf "%d %d %d\n" (List.length first) (List.length second) !seen
