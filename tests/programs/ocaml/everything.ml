(* Allocates in many ways that OCaml and its library have. allogram must record as many words as the runtime counts. *)
type r = { mutable a : int; b : float; c : string }
type fr = { x : float; y : float }
exception Boom of int * string
module type S = sig type t val make : int -> t val get : t -> int end
module A = struct type t = int * int let make n = (n, n+1) let get (a,_) = a end
module B = struct type t = { v : int; l : int list } let make n = { v = n;
    l = [n;n;n] } let get t = t.v + List.length t.l end
module F (X : S) = struct
  let sum n = let rec go i acc = if i = 0 then acc else go (i-1) (acc + X.get (X.make i)) in go n 0
  let all n = List.init n X.make
end
module FA = F(A)
module FB = F(B)
let keep : Obj.t list ref = ref []
let records n = List.init n (fun i -> { a = i; b = float i; c = string_of_int i })
let floats n = Array.init n (fun i -> float i *. 1.5)
let frs n = Array.init n (fun i -> { x = float i; y = float (i+1) })
let closures n = List.init n (fun i -> let k = i * 2 in fun z -> z + k + i)
let lazies n = List.init n (fun i -> lazy (i, i + 1))
let exns n = let s = ref 0 in for i = 1 to n do (try if i mod 2 = 0 then raise (Boom (i, "even")) else
    raise Not_found with Boom (k, m) -> s := !s + k + String.length m | Not_found -> incr s) done; !s
let strings n = let b = Buffer.create 16 in
    for i = 1 to n do Buffer.add_string b (Printf.sprintf "%d-%s;" i (String.make (i mod 7) 'x')) done;
    Buffer.contents b
let tbl n = let h = Hashtbl.create 10 in for i = 1 to n do Hashtbl.replace h (string_of_int i) (i, float i) done; h
let marshal n = let v = List.init n (fun i -> (i, float i, string_of_int i)) in
  let s = Marshal.to_string v [] in let w : (int * float * string) list = Marshal.from_string s 0 in
  assert (w = v);
  for i = 0 to 40 do let s = Marshal.to_string (Array.make i 1.0, [i;i]) [] in
    ignore (Sys.opaque_identity (Marshal.from_string s 0 : float array * int list)) done
let strs () = let r = Str.regexp "[0-9]+" in let s = strings 200 in
  Str.split (Str.regexp ";") s |> List.map (fun p -> if Str.string_match r p 0 then Str.matched_string p else "")
let rec non_tail n = if n = 0 then [] else let x = (n, n) in x :: non_tail (n-1)
let combined a b = let p = (a, b) in let q = [| a; b; a + b |] in let r = Some (ref (float a)) in
    (p, q, r, (fun () -> a + b))
[@@inline never]
let bigarrays n =
    for i = 1 to n do keep := Obj.repr (Bigarray.Array2.create Bigarray.Int32 Bigarray.C_layout i 10) :: !keep done
let seqs n =
    Seq.fold_left (+) 0 (Seq.map (fun x -> x * 2) (Seq.filter (fun x -> x mod 3 = 0) (List.to_seq (List.init n Fun.id))))
module M = Map.Make(Int)
let maps n = let m = ref M.empty in for i = 1 to n do m := M.add (i * 7919 mod 10007) (string_of_int i) !m done; !m
module W = Weak.Make(struct type t = string let equal = String.equal let hash = Hashtbl.hash end)
let weak n = let w = W.create 7 in for i = 1 to n do ignore (W.merge w (string_of_int (i mod 50))) done; w
module EH = Ephemeron.K1.Make(struct type t = int ref let equal = (==) let hash r = !r end)
let ephe n = let h = EH.create 3 in let l = ref [] in for i = 1 to n do let k = ref i in EH.add h k (i, i);
    if i mod 2 = 0 then l := k :: !l done; (h, !l)
let fin = ref 0
let finalisers n = for i = 1 to n do let b = ref (i, i) in (if i mod 2 = 0 then Gc.finalise (fun r -> incr fin;
    ignore (Sys.opaque_identity (fst !r, [i]))) b else Gc.finalise_last (fun () -> incr fin) b) done
let objects n = List.init n (fun i -> object val mutable s = i method get = s method set x = s <- x end)
class point x0 = object (self) val mutable x = x0 method get_x = x method move d = x <- x + d; ignore (self#get_x) end
let int64s n = let s = ref 0L in for i = 1 to n do s := Int64.add !s (Int64.mul (Int64.of_int i) 3L);
    keep := Obj.repr !s :: !keep done; Int64.to_string !s
let resized n = let a = ref [||] in for i = 1 to n do a := Array.append !a [| i |] done; !a
let big n = Array.make n 0.0
let scan () = Scanf.sscanf "12 hello 3.5 abc" "%d %s %f %s" (fun a b c d -> (a, b, c, d))
let fmt n = let b = Buffer.create 10 in let f = Format.formatter_of_buffer b in
    for i = 1 to n do Format.fprintf f "@[<v 2>%d %a@]@." i (fun f () -> Format.fprintf f "%s" "x") () done;
    Buffer.length b
let part name f = ignore (Sys.opaque_identity (f ())); ignore name
let () =
  let n = try int_of_string Sys.argv.(1) with _ -> 300 in
  part "records" (fun () -> records n);
  part "floats" (fun () -> floats n, frs n);
  part "closures" (fun () -> closures n);
  part "lazies" (fun () -> List.map Lazy.force (lazies n));
  part "exns" (fun () -> exns n);
  part "strings" (fun () -> strings n);
  part "tbl" (fun () -> tbl n);
  part "marshal" (fun () -> marshal n);
  part "str" (fun () -> strs ());
  part "nontail" (fun () -> non_tail (n * 3));
  part "combined" (fun () -> List.init n (fun i -> combined i i));
  part "functor" (fun () -> FA.sum n, FB.sum n, FA.all n, FB.all n);
  part "big" (fun () -> bigarrays 20);
  part "seqs" (fun () -> seqs n);
  part "maps" (fun () -> maps n);
  part "weak" (fun () -> weak n);
  part "ephe" (fun () -> ephe n);
  part "fin" (fun () -> finalisers n);
  Gc.full_major ();
  part "objects" (fun () -> List.iter (fun o -> o#set 3) (objects n); let p = new point 3 in p#move 3; p);
  part "int64" (fun () -> int64s n);
  part "resized" (fun () -> resized n);
  Gc.compact ();
  part "bigarr" (fun () -> Array.init 20 (fun i -> big (i * 100)));
  part "scan" (fun () -> scan ());
  part "fmt" (fun () -> fmt 20);
  Gc.minor (); ignore (Gc.major_slice 100); Gc.major ();
  part "parse" (fun () -> String.split_on_char ',' (String.concat "," (List.init n string_of_int)));
  part "sort" (fun () -> List.sort compare (List.init n (fun i -> (i * 7919) mod 1009)),
    Array.stable_sort compare (Array.init n (fun i -> (i * 31) mod 97)));
  part "recraise" (fun () -> try let rec deep k = if k = 0 then raise Exit else 1 + deep (k-1) in
    deep 2000 with Exit -> 0);
  keep := [];
  Gc.full_major (); Gc.full_major (); Gc.full_major ();
  print_endline ("done " ^ string_of_bool (!fin > 0))
