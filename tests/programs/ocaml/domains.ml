(* OCaml 5: three domains, a thread and an effect handler. Each of them allocates 2000 pairs and cells, in its own functions. *)
type _ Effect.t += Step : int -> int Effect.t

let pairs n =
  let rec go n acc = if n = 0 then List.length acc else go (n - 1) (Sys.opaque_identity (n, n) :: acc) in
  go n []
[@@inline never]

let in_domain () = pairs 2000 + 1 [@@inline never]
let in_thread () = ignore (pairs 2000 + 1) [@@inline never]

(* 100 times: performs an effect; the code after it allocates 10 pairs. *)
let stepping () =
  for i = 1 to 100 do
    ignore (Effect.perform (Step i) + pairs 10)
  done
[@@inline never]

let handle () =
  Effect.Deep.try_with stepping ()
    { effc =
        (fun (type a) (performed : a Effect.t) ->
          match performed with
          | Step n -> Some (fun (k : (a, _) Effect.Deep.continuation) ->
              ignore (pairs 10);
              Effect.Deep.continue k n)
          | _ -> None) }
[@@inline never]

let () =
  let domains = List.init 3 (fun _ -> Domain.spawn in_domain) in
  let thread = Thread.create in_thread () in
  handle ();
  Thread.join thread;
  if List.fold_left (fun sum domain -> sum + Domain.join domain) 0 domains <> 3 * 2001 then exit 9;
  Gc.full_major ();
  print_endline "done"
