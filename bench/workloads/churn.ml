(* The OCaml program of bench/parts/ocaml.py, which allocates all the time: a balanced tree that grows and shrinks, lists that are mapped by
   a recursion 50,000 calls deep, strings and arrays. It allocates about 5 million words per round, of which a tenth survives a minor
   collection. *)
module Ints = Map.Make (Int)

let rec map f = function [] -> [] | x :: rest -> let y = f x in y :: map f rest

let tree round =
  let grown = ref Ints.empty in
  for i = 1 to 10_000 do
    grown := Ints.add (i * 7919 mod 10_007) (i + round) !grown
  done;
  Ints.fold (fun _ n sum -> n + sum) (Ints.filter (fun _ n -> n land 1 = 0) !grown) 0

let lists () =
  let deep = map (fun n -> (n, n + 1)) (List.init 50_000 Fun.id) in
  List.fold_left (fun sum (a, b) -> sum + a + b) 0 (List.rev_map (fun (a, b) -> (b, a)) deep)

let texts () =
  let buffer = Buffer.create 16 in
  for i = 1 to 20_000 do
    Buffer.add_string buffer (string_of_int i)
  done;
  String.length (Buffer.contents buffer)

let arrays () = Array.fold_left (fun sum row -> sum + row.(3)) 0 (Array.init 2000 (fun i -> Array.make 100 i))

let () =
  let sum = ref 0 in
  for round = 1 to int_of_string Sys.argv.(1) do
    sum := !sum + tree round + lists () + texts () + arrays ()
  done;
  Printf.printf "%d\n" !sum
