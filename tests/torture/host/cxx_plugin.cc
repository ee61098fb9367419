// cxx_plugin.cc: the C++ plugin of torture programs (act_cxx of acts_images.c). It uses the operators new and delete, containers, and
// exceptions that pass frames whose functions have allocated.
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "plugin.h"
uint64_t plugin_run(const struct plugin_host *host, uint64_t n, uint64_t seed);
}

enum { CXX_SITE = 44 };

#define OPAQUE(value) __asm__ volatile("" : "+r"(value) : : "memory")

extern "C" __attribute__((noinline, used)) void *cxx_site_44(const plugin_host *host, size_t n) {
    host->begin(CXX_SITE, n);
    void *block = operator new(n);
    OPAQUE(block);
    host->done(CXX_SITE, n, block);
    return block;
}

extern "C" __attribute__((noinline, used)) void *cxx_site_45(const plugin_host *host, size_t n) {
    host->begin(CXX_SITE + 1, n);
    void *block = operator new[](n, std::nothrow);
    OPAQUE(block);
    host->done(CXX_SITE + 1, n, block);
    return block;
}

static __attribute__((noinline)) uint64_t throw_up(unsigned depth, uint64_t seed) {
    std::string text(depth * 3 + 20, 'a');
    if (depth == 0) {
        throw std::runtime_error("thrown " + text);
    }
    return throw_up(depth - 1, seed) + text.size();
}

uint64_t plugin_run(const plugin_host *host, uint64_t n, uint64_t seed) {
    uint64_t result = seed;
    std::map<uint64_t, std::string> map;
    for (uint64_t i = 0; i < n; i++) {
        const size_t size = 32 + (seed * (i + 3)) % 500;
        void *block = i & 1 ? cxx_site_44(host, size) : cxx_site_45(host, size);
        void *truth = host->free_begin(block);
        if (i & 1) {
            operator delete(block);
        } else {
            operator delete[](block);
        }
        host->free_done(truth);
        map[i * 7 % 11] += std::to_string(seed * i);
        try {
            result += throw_up(static_cast<unsigned>(i % 13), seed);
        } catch (const std::exception &error) {
            result = result * 31 + std::string(error.what()).size();
        }
        std::vector<std::unique_ptr<int>> numbers;
        for (int k = 0; k < 9; k++) {
            numbers.push_back(std::make_unique<int>(k));
        }
        result += numbers.size();
    }
    for (const auto &entry : map) {
        result = result * 31 + entry.second.size();
    }
    return result;
}
