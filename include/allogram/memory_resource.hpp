/* memory_resource.hpp: C++17 classes that report the allocations of containers to allogram, as a
 * heap with a name.
 *
 *     #include <allogram/memory_resource.hpp>
 *
 *     allogram::memory_resource nodes("nodes");        // forwards to the default resource
 *     std::pmr::map<int, std::pmr::string> index(&nodes);
 *
 *     struct frames { static constexpr const char *heap_name = "frames"; };
 *     std::vector<float, allogram::allocator<float, frames>> frame;
 *
 * The classes need only this header and allogram.h, whose rules apply: without the library and
 * without the profiler, the classes only forward calls. Each block of the heap has the size that
 * the container requested. Under `allogram run` the trace also contains the block that malloc or
 * operator new returned for the container's block, in the heap of malloc or of operator new.
 * `allogram report --view=heaps` shows both heaps; do not add their bytes, because they are the
 * same memory. */
#ifndef ALLOGRAM_MEMORY_RESOURCE_HPP
#define ALLOGRAM_MEMORY_RESOURCE_HPP

#include <allogram/allogram.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <type_traits>

namespace allogram {

/* Returns the heap with this name and allocator; the first call registers the heap. Returns 0
 * without the library. */
inline allogram_heap heap_of(const char *name, const char *allocator) {
    allogram_heap_options options = {};
    options.size = sizeof(options);
    options.name = name;
    options.allocator = allocator;
    return allogram_heap_new(&options);
}

/* A resource that forwards each call to `upstream`, the resource that allocates, and reports the
 * block. Every thread that may use `upstream` may use this resource; `upstream` must live longer
 * than this resource. type: the type of all its blocks; 0: unknown. Two resources are equal if one
 * can deallocate the blocks of the other: they have the same heap and equal upstreams. */
class memory_resource : public std::pmr::memory_resource {
public:
    explicit memory_resource(const char *name, std::pmr::memory_resource *upstream = nullptr,
                             allogram_type type = 0)
        : upstream_(upstream ? upstream : std::pmr::get_default_resource()),
          heap_(heap_of(name, "pmr")), type_(type) {}

    std::pmr::memory_resource *upstream() const noexcept { return upstream_; }
    allogram_heap heap() const noexcept { return heap_; }

private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        void *block = upstream_->allocate(bytes, alignment); /* exceptions are passed on */
        allogram_alloc(heap_, reinterpret_cast<std::uintptr_t>(block), bytes, type_);
        return block;
    }
    void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override {
        allogram_free(heap_, reinterpret_cast<std::uintptr_t>(block));
        upstream_->deallocate(block, bytes, alignment);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        const auto *same = dynamic_cast<const memory_resource *>(&other);
        return this == &other ||
               (same && same->heap_ == heap_ && same->upstream_->is_equal(*upstream_));
    }

    std::pmr::memory_resource *upstream_;
    allogram_heap heap_;
    allogram_type type_;
};

/* An allocator for containers without pmr. Heap: a type with a member heap_name. Upstream: the
 * allocator that allocates the memory; it must be default-constructible, and constructible from the
 * same allocator template with another value type, as std::allocator<T> is from
 * std::allocator<U>. */
template <class T, class Heap, class Upstream = std::allocator<T>> class allocator {
    using traits = std::allocator_traits<Upstream>;

public:
    using value_type = T;
    using is_always_equal = typename traits::is_always_equal;
    template <class U> struct rebind {
        using other = allocator<U, Heap, typename traits::template rebind_alloc<U>>;
    };

    allocator() = default;
    template <class U, class V>
    allocator(const allocator<U, Heap, V> &other) noexcept : upstream_(other.upstream()) {}

    T *allocate(std::size_t count) {
        T *block = traits::allocate(upstream_, count);
        allogram_alloc(heap(), reinterpret_cast<std::uintptr_t>(block), count * sizeof(T), 0);
        return block;
    }
    void deallocate(T *block, std::size_t count) {
        allogram_free(heap(), reinterpret_cast<std::uintptr_t>(block));
        traits::deallocate(upstream_, block, count);
    }
    const Upstream &upstream() const noexcept { return upstream_; }

    static allogram_heap heap() {
        static const allogram_heap found = heap_of(Heap::heap_name, "allocator");
        return found;
    }

    template <class U, class V> bool operator==(const allocator<U, Heap, V> &other) const noexcept {
        return upstream_ == other.upstream();
    }
    template <class U, class V> bool operator!=(const allocator<U, Heap, V> &other) const noexcept {
        return !(*this == other);
    }

private:
    Upstream upstream_;
};

} // namespace allogram

#endif
