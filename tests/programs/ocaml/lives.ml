(* Known numbers of blocks: blocks of one word, which a compaction moves or which die in the major heap, and blocks in a minor heap that
   is resized. Then a recursion allocates until the stack is full. *)
let kept = ref []
let moved i = ref i [@@inline never]
let resized i = ref i [@@inline never]
let keep f n = for i = 1 to n do kept := Sys.opaque_identity (f i) :: !kept done [@@inline never]
let drop f n = for i = 1 to n do ignore (Sys.opaque_identity (f i)) done [@@inline never]

let rec deep n = let cell = Sys.opaque_identity (ref n) in !cell + deep (n + 1) [@@inline never]

let pick parity = kept := List.filteri (fun i _ -> i mod 2 = parity) !kept [@@inline never]

let () =
  keep moved 1000;
  Gc.full_major (); (* all thousand are in the major heap *)
  pick 0;
  Gc.compact (); (* 500 die; the others may move *)
  pick 0;
  Gc.full_major (); (* 250 live *)
  Gc.set { (Gc.get ()) with Gc.minor_heap_size = 1024 * 1024 };
  drop resized 400_000;
  keep resized 100;
  Gc.set { (Gc.get ()) with Gc.minor_heap_size = 4096 };
  drop resized 100_000;
  Gc.minor ();
  (try ignore (deep 0) with Stack_overflow -> print_endline "overflow");
  Gc.full_major ();
  Printf.printf "%d %d\n" (List.length !kept) (Hashtbl.hash (List.map ( ! ) !kept))
