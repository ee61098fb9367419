(* Four threads and a child process allocate 2000 pairs each. *)
let pairs () =
  let rec go n acc = if n = 0 then List.length acc else go (n - 1) (Sys.opaque_identity (n, n) :: acc) in
  go 2000 []
[@@inline never]

let () =
  let threads = List.init 4 (fun _ -> Thread.create (fun () -> ignore (pairs ())) ()) in
  List.iter Thread.join threads;
  flush stdout;
  match Unix.fork () with
  | 0 ->
    ignore (pairs ());
    Unix._exit 7
  | child -> (
    match Unix.waitpid [] child with
    | _, Unix.WEXITED 7 -> print_endline "seven"
    | _ -> exit 9)
