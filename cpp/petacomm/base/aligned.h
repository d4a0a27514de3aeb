// Arrays that begin at a cache line: else every vector of 64 bytes that is loaded would lie in two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace petacomm {

template <class T>
struct CacheLineAllocator {
    using value_type = T;

    CacheLineAllocator() = default;
    template <class U>
    CacheLineAllocator(const CacheLineAllocator<U>&) {}

    // An allocation like any other, whose begin stands before the array: glibc finds no room for an aligned
    // one where an equal one was freed, and memory grows with every block that is worked on.
    T* allocate(std::size_t n) {
        if (n > (SIZE_MAX - 2 * kLine) / sizeof(T)) throw std::bad_array_new_length();
        void* memory = ::operator new(n * sizeof(T) + 2 * kLine);
        const auto line = reinterpret_cast<std::uintptr_t>(memory) / kLine + 2;
        auto* array = reinterpret_cast<void**>(line * kLine);
        array[-1] = memory;
        return reinterpret_cast<T*>(array);
    }
    void deallocate(T* array, std::size_t) { ::operator delete(reinterpret_cast<void**>(array)[-1]); }

    static constexpr std::size_t kLine = 64;

    bool operator==(const CacheLineAllocator&) const { return true; }
};

template <class T>
using AlignedVector = std::vector<T, CacheLineAllocator<T>>;

}  // namespace petacomm
