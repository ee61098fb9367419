(* Functions of the program that allocate only through OCaml's standard library and runtime: a list, texts, a table and a big array. *)
let kept : Obj.t list ref = ref []
let keep value = kept := Obj.repr value :: !kept

let mapped n = keep (List.map succ (List.init n Fun.id)) [@@inline never]
let created n = for _ = 1 to n do keep (Bytes.create 1000) done [@@inline never]
let buffered n = let b = Buffer.create 16 in for i = 1 to n do Buffer.add_string b (string_of_int i) done; keep b [@@inline never]
let printed n = for i = 1 to n do keep (Printf.sprintf "%d %s" i "text") done [@@inline never]
let hashed n = let t = Hashtbl.create 16 in for i = 1 to n do Hashtbl.replace t i i done; keep t [@@inline never]
let big n = keep (Bigarray.Array1.create Bigarray.float64 Bigarray.c_layout n) [@@inline never]

let () =
  mapped 100;
  created 1000;
  buffered 20000;
  printed 1000;
  hashed 5000;
  big 100000
