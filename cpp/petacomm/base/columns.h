// Several columns of numbers side by side: one vector register holds the value of each, so that every column
// gets the operations that it would get alone, and the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace petacomm {

// The widths that kernels are made for; what has fewer columns has some of zeros.
constexpr int kWidths[] = {1, 2, 4, 8};

// GCC converts no vector of a size that depends on a template's parameter.
template <int kWidth>
struct Columns;

template <>
struct Columns<1> {
    typedef double Real;
    typedef std::int64_t Whole;
    static Real to_real(Whole value) { return static_cast<double>(value); }
};

template <>
struct Columns<2> {
    typedef double Real __attribute__((vector_size(16)));
    typedef std::int64_t Whole __attribute__((vector_size(16)));
    static Real to_real(Whole value) { return __builtin_convertvector(value, Real); }
};

template <>
struct Columns<4> {
    typedef double Real __attribute__((vector_size(32)));
    typedef std::int64_t Whole __attribute__((vector_size(32)));
    static Real to_real(Whole value) { return __builtin_convertvector(value, Real); }
};

template <>
struct Columns<8> {
    typedef double Real __attribute__((vector_size(64)));
    typedef std::int64_t Whole __attribute__((vector_size(64)));
    static Real to_real(Whole value) { return __builtin_convertvector(value, Real); }
};

template <int kWidth>
using RealColumns = typename Columns<kWidth>::Real;
template <int kWidth>
using WholeColumns = typename Columns<kWidth>::Whole;

template <class Vector, class T>
[[gnu::always_inline]] inline Vector load_columns(const T* from) {
    if constexpr (sizeof(Vector) == sizeof(T)) {
        return std::bit_cast<Vector>(*from);  // loops over these are made vectors by the compiler
    } else {
        Vector value;
        std::memcpy(&value, from, sizeof(Vector));
        return value;
    }
}

template <class Vector, class T>
[[gnu::always_inline]] inline void store_columns(T* to, const Vector& value) {
    if constexpr (sizeof(Vector) == sizeof(T))
        *to = std::bit_cast<T>(value);
    else
        std::memcpy(to, &value, sizeof(Vector));
}

// Round to integers by adding 1.5 x 2^52; |value| < 2^51.
template <int kWidth>
[[gnu::always_inline]] inline WholeColumns<kWidth> to_fixed(RealColumns<kWidth> value) {
    constexpr double kMagic = 0x1.8p52;
    return std::bit_cast<WholeColumns<kWidth>>(value + kMagic) - std::bit_cast<std::int64_t>(kMagic);
}

template <class Real>
[[gnu::always_inline]] inline Real larger(Real a, Real b) {
    return a > b ? a : b;
}

template <class Real>
[[gnu::always_inline]] inline Real size_of(Real value) {
    if constexpr (std::is_same_v<Real, double>)
        return std::fabs(value);
    else
        return value < 0 ? -value : value;
}

// Call work(std::integral_constant<int, w>) for the width w.
template <class Work>
auto for_width(int width, const Work& work) {
    switch (width) {
        case 1:
            return work(std::integral_constant<int, 1>{});
        case 2:
            return work(std::integral_constant<int, 2>{});
        case 4:
            return work(std::integral_constant<int, 4>{});
        default:
            return work(std::integral_constant<int, 8>{});
    }
}

}  // namespace petacomm
