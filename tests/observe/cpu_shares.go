// cpu_shares.go: measures how much CPU time two functions use, and prints the times as JSON; threeParts works three times as long as
// onePart. `allogram observe` must find the same shares in code without libc, with frame pointers and goroutine stacks.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"
)

var sink float64

//go:noinline
func threeParts(rounds int) float64 {
	value := 1.0
	for i := 0; i < 3*rounds; i++ {
		value = value*0.999 + 1
	}
	return value
}

//go:noinline
func onePart(rounds int) float64 {
	value := 1.0
	for i := 0; i < rounds; i++ {
		value = value*0.998 + 1
	}
	return value
}

// Returns the thread's CPU time in ns. getrusage has a resolution of milliseconds only.
func threadTime() float64 {
	const threadClock = 3 // CLOCK_THREAD_CPUTIME_ID
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&now)), 0)
	return float64(now.Nano())
}

func worker(done chan [2]float64, stop chan os.Signal) {
	runtime.LockOSThread()
	var spent [2]float64
	random := uint32(1)
	for {
		select {
		case <-stop:
			done <- spent
			return
		default:
		}
		random = random*1664525 + 1013904223
		rounds := 200000 + int(random>>16)%400000
		cpu := threadTime()
		sink += threeParts(rounds)
		middle := threadTime()
		sink += onePart(rounds)
		spent[0] += middle - cpu
		spent[1] += threadTime() - middle
	}
}

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	done := make(chan [2]float64)
	go worker(done, stop)
	fmt.Println("ready")
	spent := <-done
	fmt.Printf("{\"three_parts\": %.0f, \"one_part\": %.0f}\n", spent[0], spent[1])
}
