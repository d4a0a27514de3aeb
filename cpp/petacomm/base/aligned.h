// Arrays that begin at a cache line: else every vector of 64 bytes that is loaded would lie in two.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace petacomm {

template <class T>
struct CacheLineAllocator {
    using value_type = T;

    CacheLineAllocator() = default;
    template <class U>
    CacheLineAllocator(const CacheLineAllocator<U>&) {}

    T* allocate(std::size_t n) {
        return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64}));
    }
    void deallocate(T* array, std::size_t) { ::operator delete(array, std::align_val_t{64}); }

    bool operator==(const CacheLineAllocator&) const { return true; }
};

template <class T>
using AlignedVector = std::vector<T, CacheLineAllocator<T>>;

}  // namespace petacomm
