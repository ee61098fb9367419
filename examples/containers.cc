/* containers.cc: containers whose memory has a name in the report.
 *
 *     c++ -std=c++17 containers.cc $(pkg-config --cflags --libs allogram)
 *
 * What the report must contain (the tests compare these numbers): the heap "numbers" has 10 list
 * nodes of 24 bytes (next, previous, a number), which are all freed. The heap "frames" has a vector
 * of 100 floats, 400 bytes, which is in use when the session (the recording) ends. */
#include <allogram/memory_resource.hpp>

#include <cstdio>
#include <list>
#include <vector>

struct frames {
    static constexpr const char *heap_name = "frames";
};

int main() {
    char message[512];
    if (allogram_start(nullptr, message, sizeof(message)) < 0) {
        std::fprintf(stderr, "containers: %s\n", message);
    }
    std::vector<float, allogram::allocator<float, frames>> frame(100);
    {
        allogram::memory_resource resource("numbers");
        std::pmr::list<long> numbers(&resource);
        for (long i = 0; i < 10; i++) {
            numbers.push_back(i);
        }
        numbers.remove_if([](long number) { return number % 3 == 0; });
    }
    (void)allogram_stop();
    std::printf("%s\n", allogram_trace());
    return frame.size() == 100 ? 0 : 1;
}
