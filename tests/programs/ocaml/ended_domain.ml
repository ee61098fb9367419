(* OCaml 5: the blocks of a domain that has ended die later, in a collection of another domain.
   Domain.join returns before the runtime's thread of the domain has given up its root for the
   domain's result (free_domain_ml_values in runtime/domain.c). So the program waits until these
   threads are gone. *)
let cell i = ref i [@@inline never]
let cells () = List.init 300 (fun i -> Sys.opaque_identity (cell i)) [@@inline never]
let threads () = Array.length (Sys.readdir "/proc/self/task")

(* The first call of Domain.spawn also starts a thread that stays. *)
let rec await_threads wanted = if threads () > wanted then (Unix.sleepf 0.001; await_threads wanted)

let () =
  let at_start = threads () in
  let made = ref (Domain.join (Domain.spawn cells)) in
  let others = List.init 2 (fun _ -> Domain.spawn cells) in
  let more = ref (List.concat_map Domain.join others) in
  await_threads (at_start + 1);
  Gc.full_major ();
  made := [];
  Gc.full_major (); (* 300 die *)
  Gc.compact ();
  more := List.filteri (fun i _ -> i < 100) !more;
  Gc.full_major (); (* 500 die *)
  Printf.printf "%d\n" (List.length !more + List.length !made)
