; guile_objects.scm: known numbers of blocks that Guile takes from the Boehm collector: vectors that stay in use, bytevectors that die, and
; pairs, which Guile takes from its own free lists; the collector fills these lists. Prints what the runtime itself counted.
(use-modules (rnrs bytevectors))

(define n (string->number (list-ref (command-line) 1)))
(define kept '())

(define (vectors i)
  (when (> i 0)
    (set! kept (cons (make-vector 133 i) kept))
    (vectors (- i 1))))

(define (bytevectors i)
  (when (> i 0)
    (make-bytevector 1777 1)
    (bytevectors (- i 1))))

(vectors n)
(bytevectors n)
(gc)
(gc)
(let ((stats (gc-stats)))
  (format #t "kept ~a collections ~a\n" (length kept) (assq-ref stats 'gc-times)))
