(* planted.ml: small programs with one memory bug each, as in planted.c.

   cache  results are remembered in a table that is never cleaned
   leak   each connection adds a handler to a list, and none removes it *)
let is_planted = Array.length Sys.argv > 2
let table : (string, float array) Hashtbl.t = Hashtbl.create 64

let spectrum key =
  match Hashtbl.find_opt table key with
  | Some found -> found
  | None ->
    if (not is_planted) && Hashtbl.length table >= 50 then Hashtbl.reset table;
    let made = Array.init 32 (fun i -> float_of_int (String.length key * i)) in (* PLANTED cache *)
    Hashtbl.add table key made;
    made

let cache () =
  let sum = ref 0. in
  for i = 1 to 6000 do
    sum := !sum +. (spectrum (string_of_int i)).(1)
  done;
  !sum

type connection = { number : int; buffer : Bytes.t }

let handlers : (unit -> int) list ref = ref []

let connect number =
  let connection = { number; buffer = Bytes.create 200 } in (* PLANTED leak *)
  let handler () = connection.number + Bytes.length connection.buffer in
  handlers := if is_planted then handler :: !handlers else [ handler ];
  handler ()

let leak () =
  let sum = ref 0 in
  for i = 1 to 8000 do
    sum := !sum + connect i
  done;
  float_of_int !sum

let () =
  let result = match Sys.argv.(1) with "cache" -> cache () | _ -> leak () in
  Gc.full_major ();
  Printf.printf "%g\n" result
