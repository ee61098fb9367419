; guile_stacks.scm: procedures that allocate known numbers of blocks, and a procedure that allocates one block of a known size and prints the
; stack that Guile itself shows at this moment (make-stack). The argument is the number of blocks.
(use-modules (rnrs bytevectors) (system vm frame) (system vm program) (ice-9 threads))

(define n (string->number (list-ref (command-line) 1)))

(define (make-pairs i list)
  (if (= i 0) list (make-pairs (- i 1) (cons i list))))

(define (make-vectors i)
  (let loop ((i i) (last #f))
    (if (= i 0) last (loop (- i 1) (make-vector 133 i)))))

(define (make-boxes-deep i)
  (if (= i 0) '() (cons (make-vector 37 i) (make-boxes-deep (- i 1)))))

(define (make-texts i)
  (when (> i 0)
    (make-bytevector 1777 1)
    (make-texts (- i 1))))

; The number of words of the vector identifies the call of witness.
(define stacks '())
(define kept #f)
(define (witness words)
  (let* ((stack (make-stack #t)) (block (make-vector words 0)))
    (set! kept block) ; so that the compiler keeps the vector
    (set! stacks (cons (cons words stack) stacks))
    words))

(define (show words stack)
  (format #t "stack ~a\n" words)
  (let loop ((i 1)) ; frame 0 is that of make-stack
    (when (< i (stack-length stack))
      (let* ((frame (stack-ref stack i)) (source (frame-source frame)))
        (unless (primitive-code? (frame-instruction-pointer frame))
          (format #t "frame ~a ~a ~a\n" (or (frame-procedure-name frame) "-") (if source (source:file source) "-")
                  (if source (source:line-for-user source) 0))))
      (loop (+ i 1)))))

(define (by-map) (map (lambda (words) (+ 0 (witness words))) '(4001)))
(define (by-c) (sort '(4002 0) (lambda (a b) (witness (max a b)) (< a b))))
(define (by-eval) (eval '(let ((deep (lambda (words) (+ 0 (witness words))))) (+ 0 (deep 4003))) (current-module)))
(define (by-apply) (+ 0 (apply witness '(4004))))
(define (by-values) (call-with-values (lambda () (values 4005 1)) (lambda (words _) (+ 0 (witness words)))))
(define (by-thread) (join-thread (call-with-new-thread (lambda () (+ 0 (witness 4006))))))
(define (by-prompt)
  (let ((again (call-with-prompt 'tag (lambda () (+ 0 (witness (abort-to-prompt 'tag)))) (lambda (k) k))))
    (+ 0 (again 4007))))
(define (by-recursion i) (if (= i 0) (witness 4008) (+ 0 (by-recursion (- i 1)))))

(format #t "made ~a ~a ~a\n" (length (make-pairs n '())) (vector-length (make-vectors n)) (length (make-boxes-deep n)))
(make-texts n)
(by-map)
(by-c)
(by-eval)
(by-apply)
(by-values)
(by-thread)
(by-prompt)
(by-recursion 20)
(for-each (lambda (entry) (show (car entry) (cdr entry))) (reverse stacks))
