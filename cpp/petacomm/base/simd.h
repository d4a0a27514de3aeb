// Vectors of doubles and of 64-bit integers. Each lane gets the same operations however many lanes there are,
// so the same bits; kernels that may choose take as many as a register of the machine holds.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace petacomm {

// Doubles in a register: of AVX-512; of AVX2; of SSE2, NEON, or SVE, which is used 128 bits wide. Wider
// vectors are several registers, which GCC keeps in memory when they are shuffled.
#if defined(__AVX512F__)
constexpr int kNativeLanes = 8;
#elif defined(__AVX2__)
constexpr int kNativeLanes = 4;
#else
constexpr int kNativeLanes = 2;
#endif

// Compilers take no vector of a size that depends on a template's parameter everywhere: GCC does not convert
// it.
template <int kLanes>
struct Registers;

template <>
struct Registers<1> {
    typedef double Real;
    typedef std::int64_t Whole;
    typedef std::uint64_t Bits;
    typedef std::int32_t Narrow;
    typedef float Single;
};

template <>
struct Registers<2> {
    typedef double Real __attribute__((vector_size(16)));
    typedef std::int64_t Whole __attribute__((vector_size(16)));
    typedef std::uint64_t Bits __attribute__((vector_size(16)));
    typedef std::int32_t Narrow __attribute__((vector_size(8)));
    typedef float Single __attribute__((vector_size(8)));
};

template <>
struct Registers<4> {
    typedef double Real __attribute__((vector_size(32)));
    typedef std::int64_t Whole __attribute__((vector_size(32)));
    typedef std::uint64_t Bits __attribute__((vector_size(32)));
    typedef std::int32_t Narrow __attribute__((vector_size(16)));
    typedef float Single __attribute__((vector_size(16)));
};

template <>
struct Registers<8> {
    typedef double Real __attribute__((vector_size(64)));
    typedef std::int64_t Whole __attribute__((vector_size(64)));
    typedef std::uint64_t Bits __attribute__((vector_size(64)));
    typedef std::int32_t Narrow __attribute__((vector_size(32)));
    typedef float Single __attribute__((vector_size(32)));
};

template <int kLanes>
using Reals = typename Registers<kLanes>::Real;
template <int kLanes>
using Wholes = typename Registers<kLanes>::Whole;
template <int kLanes>
using Bits = typename Registers<kLanes>::Bits;

template <class Vector, class T>
[[gnu::always_inline]] inline Vector load(const T* from) {
    if constexpr (sizeof(Vector) == sizeof(T)) {
        return std::bit_cast<Vector>(*from);  // loops over these are made vectors by the compiler
    } else {
        Vector value;
        std::memcpy(&value, from, sizeof(Vector));
        return value;
    }
}

template <class Vector, class T>
[[gnu::always_inline]] inline void store(T* to, const Vector& value) {
    if constexpr (sizeof(Vector) == sizeof(T))
        *to = std::bit_cast<T>(value);
    else
        std::memcpy(to, &value, sizeof(Vector));
}

// The signs of 64 numbers: bit i is 1 where number i is below 0.
inline std::uint64_t signs_of_64(const std::int32_t* numbers) {
    std::uint64_t signs = 0;
#if defined(__AVX512F__)
    for (int i = 0; i < 64; i += 16)
        signs |=
            std::uint64_t{_mm512_cmplt_epi32_mask(_mm512_loadu_si512(numbers + i), _mm512_setzero_si512())}
            << i;
#elif defined(__AVX2__)
    for (int i = 0; i < 64; i += 8) {
        const auto eight = load<__m256>(numbers + i);
        signs |= std::uint64_t{static_cast<std::uint32_t>(_mm256_movemask_ps(eight))} << i;
    }
#elif defined(__SSE2__)
    for (int i = 0; i < 64; i += 4) {
        const auto four = load<__m128>(numbers + i);
        signs |= std::uint64_t{static_cast<std::uint32_t>(_mm_movemask_ps(four))} << i;
    }
#else
    for (int i = 0; i < 64; ++i) signs |= std::uint64_t{numbers[i] < 0} << i;
#endif
    return signs;
}

// Numbers of half the size, made as wide as lanes are. By name where there are instructions: GCC 12 converts
// halves of vectors.
template <int kLanes>
[[gnu::always_inline]] inline Wholes<kLanes> load_wide(const std::int32_t* from) {
    const auto narrow = load<typename Registers<kLanes>::Narrow>(from);
#ifdef __AVX512F__
    if constexpr (kLanes == 8)
        return std::bit_cast<Wholes<8>>(_mm512_maskz_cvtepi32_epi64(0xFF, std::bit_cast<__m256i>(narrow)));
#endif
#ifdef __AVX2__
    if constexpr (kLanes == 4)
        return std::bit_cast<Wholes<4>>(_mm256_cvtepi32_epi64(std::bit_cast<__m128i>(narrow)));
#endif
    if constexpr (kLanes == 1)
        return narrow;
    else
        return __builtin_convertvector(narrow, typename Registers<kLanes>::Whole);
}

template <int kLanes>
[[gnu::always_inline]] inline Reals<kLanes> load_wide(const float* from) {
    const auto single = load<typename Registers<kLanes>::Single>(from);
#ifdef __AVX512F__
    if constexpr (kLanes == 8)
        return std::bit_cast<Reals<8>>(_mm512_maskz_cvtps_pd(0xFF, std::bit_cast<__m256>(single)));
#endif
#ifdef __AVX2__
    if constexpr (kLanes == 4) return std::bit_cast<Reals<4>>(_mm256_cvtps_pd(std::bit_cast<__m128>(single)));
#endif
    if constexpr (kLanes == 1)
        return single;
    else
        return __builtin_convertvector(single, typename Registers<kLanes>::Real);
}

// The numbers that are left of 32 bits without the upper kShift, with a sign, times 2^kShift.
template <int kLanes, int kShift>
[[gnu::always_inline]] inline Reals<kLanes> load_lower(const std::uint32_t* from) {
    if constexpr (kLanes == 1) {
        return static_cast<std::int32_t>(*from << kShift);
    } else {
        using Narrow = typename Registers<kLanes>::Narrow;
        const Narrow shifted = load<Narrow>(from) << kShift;
#ifdef __AVX512F__
        if constexpr (kLanes == 8)
            return std::bit_cast<Reals<8>>(_mm512_maskz_cvtepi32_pd(0xFF, std::bit_cast<__m256i>(shifted)));
#endif
#ifdef __AVX2__
        if constexpr (kLanes == 4)
            return std::bit_cast<Reals<4>>(_mm256_cvtepi32_pd(std::bit_cast<__m128i>(shifted)));
#endif
        return __builtin_convertvector(shifted, typename Registers<kLanes>::Real);
    }
}

// Lanes of a and, numbered on from them, of b. GCC has the one builtin since 12, the other before, which
// Clang lacks.
template <int... kFrom, class Vector>
[[gnu::always_inline]] inline Vector shuffle(Vector a, Vector b) {
#if defined(__clang__) || __GNUC__ >= 12
    return __builtin_shufflevector(a, b, kFrom...);
#else
    return __builtin_shuffle(a, b, Bits<sizeof...(kFrom)>{kFrom...});
#endif
}

// Both, one behind the other. By name where there are instructions: GCC 12 shuffles twice.
[[gnu::always_inline]] inline Reals<4> join(Reals<2> a, Reals<2> b) {
#ifdef __AVX2__
    return std::bit_cast<Reals<4>>(_mm256_insertf128_pd(_mm256_castpd128_pd256(std::bit_cast<__m128d>(a)),
                                                        std::bit_cast<__m128d>(b), 1));
#else
    return Reals<4>{a[0], a[1], b[0], b[1]};
#endif
}

[[gnu::always_inline]] inline Reals<8> join(Reals<4> a, Reals<4> b) {
#ifdef __AVX512F__
    const auto first = _mm512_castpd256_pd512(std::bit_cast<__m256d>(a));
    return std::bit_cast<Reals<8>>(_mm512_maskz_insertf64x4(0xFF, first, std::bit_cast<__m256d>(b), 1));
#else
    return Reals<8>{a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]};
#endif
}

// A vector of what work(lane) returns.
template <int kLanes, class Work>
[[gnu::always_inline]] inline Reals<kLanes> collect(const Work& work) {
    if constexpr (kLanes == 1)
        return work(0);
    else if constexpr (kLanes == 2)
        return Reals<2>{work(0), work(1)};
    else if constexpr (kLanes == 4)
        return Reals<4>{work(0), work(1), work(2), work(3)};
    else
        return Reals<8>{work(0), work(1), work(2), work(3), work(4), work(5), work(6), work(7)};
}

// The first of the two numbers that at(lane) points to, and the second.
template <int kLanes, class At>
[[gnu::always_inline]] inline void collect_pairs(const At& at, Reals<kLanes>& first, Reals<kLanes>& second) {
    const auto pair = [&](int lane) __attribute__((always_inline)) { return load<Reals<2>>(at(lane)); };
    if constexpr (kLanes == 1) {
        const double* values = at(0);
        first = values[0], second = values[1];
    } else if constexpr (kLanes == 2) {
        const Reals<2> one = pair(0), other = pair(1);
        first = shuffle<0, 2>(one, other), second = shuffle<1, 3>(one, other);
    } else if constexpr (kLanes == 4) {
        const auto even = join(pair(0), pair(2)), odd = join(pair(1), pair(3));
        first = shuffle<0, 4, 2, 6>(even, odd), second = shuffle<1, 5, 3, 7>(even, odd);
    } else {
        const auto four = [&](int lane)
                              __attribute__((always_inline)) { return join(pair(lane), pair(lane + 2)); };
        const auto even = join(four(0), four(4)), odd = join(four(1), four(5));
        first = shuffle<0, 8, 2, 10, 4, 12, 6, 14>(even, odd);
        second = shuffle<1, 9, 3, 11, 5, 13, 7, 15>(even, odd);
    }
}

// Call work(std::integral_constant<int, lanes>, first) for the numbers below n: as many at once as a register
// holds, the rest one by one.
template <class Work>
[[gnu::always_inline]] inline void for_lanes(std::int64_t n, const Work& work) {
    std::int64_t i = 0;
    for (; i + kNativeLanes <= n; i += kNativeLanes) work(std::integral_constant<int, kNativeLanes>{}, i);
    for (; i < n; ++i) work(std::integral_constant<int, 1>{}, i);
}

// Round to integers by adding 1.5 x 2^52; |value| < 2^51.
template <int kLanes>
[[gnu::always_inline]] inline Wholes<kLanes> to_fixed(Reals<kLanes> value) {
    constexpr double kMagic = 0x1.8p52;
    return std::bit_cast<Wholes<kLanes>>(value + kMagic) - std::bit_cast<std::int64_t>(kMagic);
}

// The nearest integers, as doubles; |value| < 2^51.
template <int kLanes>
[[gnu::always_inline]] inline Reals<kLanes> to_whole(Reals<kLanes> value) {
    constexpr double kMagic = 0x1.8p52;
    return (value + kMagic) - kMagic;
}

// The nearest doubles. AVX2 converts no integers of 64 bits: there both halves are put behind the exponents
// that they need, which is exact, and one addition rounds, as the conversion does.
template <int kLanes>
[[gnu::always_inline]] inline Reals<kLanes> to_real(Wholes<kLanes> value) {
#if defined(__AVX2__) && !defined(__AVX512DQ__)
    const auto bits = std::bit_cast<Bits<kLanes>>(value);
    const Bits<kLanes> low = (bits & 0xFFFFFFFF) | std::bit_cast<std::uint64_t>(0x1p52);
    const Bits<kLanes> high = (bits >> 32) ^ std::bit_cast<std::uint64_t>(0x1p84 + 0x1p63);
    return (std::bit_cast<Reals<kLanes>>(high) - (0x1p84 + 0x1p63 + 0x1p52)) +
           std::bit_cast<Reals<kLanes>>(low);
#else
    if constexpr (kLanes == 1)
        return static_cast<double>(value);
    else
        return __builtin_convertvector(value, typename Registers<kLanes>::Real);
#endif
}

// The products of the lower 32 bits of each lane.
template <int kLanes>
[[gnu::always_inline]] inline Bits<kLanes> multiply_words(Bits<kLanes> a, Bits<kLanes> b) {
#ifdef __AVX512F__
    if constexpr (kLanes == 8)
        return std::bit_cast<Bits<8>>(
            _mm512_maskz_mul_epu32(0xFF, std::bit_cast<__m512i>(a), std::bit_cast<__m512i>(b)));
#endif
#ifdef __AVX2__
    if constexpr (kLanes == 4)
        return std::bit_cast<Bits<4>>(_mm256_mul_epu32(std::bit_cast<__m256i>(a), std::bit_cast<__m256i>(b)));
#endif
#ifdef __SSE2__
    if constexpr (kLanes == 2)
        return std::bit_cast<Bits<2>>(_mm_mul_epu32(std::bit_cast<__m128i>(a), std::bit_cast<__m128i>(b)));
#endif
    return (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF);
}

template <int kLanes>
[[gnu::always_inline]] inline Reals<kLanes> square_root(Reals<kLanes> value) {
#ifdef __AVX512F__
    if constexpr (kLanes == 8)
        return std::bit_cast<Reals<8>>(_mm512_maskz_sqrt_pd(0xFF, std::bit_cast<__m512d>(value)));
#endif
#ifdef __AVX2__
    if constexpr (kLanes == 4) return std::bit_cast<Reals<4>>(_mm256_sqrt_pd(std::bit_cast<__m256d>(value)));
#endif
#ifdef __SSE2__
    if constexpr (kLanes == 2) return std::bit_cast<Reals<2>>(_mm_sqrt_pd(std::bit_cast<__m128d>(value)));
#endif
    for (int lane = 0; lane < kLanes; ++lane) value[lane] = std::sqrt(value[lane]);
    return value;
}

// Where there are several registers, one by one: GCC compares such vectors lane by lane.
template <class Real>
[[gnu::always_inline]] inline Real larger(Real a, Real b) {
    if constexpr (sizeof(Real) <= kNativeLanes * sizeof(double)) {
        return a > b ? a : b;
    } else {
        Reals<kNativeLanes> first[sizeof(Real) / sizeof(Reals<kNativeLanes>)], second[std::size(first)];
        std::memcpy(first, &a, sizeof(a));
        std::memcpy(second, &b, sizeof(b));
        for (std::size_t i = 0; i < std::size(first); ++i) first[i] = larger(first[i], second[i]);
        std::memcpy(&a, first, sizeof(a));
        return a;
    }
}

template <class Real>
[[gnu::always_inline]] inline Real size_of(Real value) {
    using Words = Bits<sizeof(Real) / sizeof(double)>;
    return std::bit_cast<Real>(std::bit_cast<Words>(value) & 0x7FFFFFFFFFFFFFFF);
}

template <int kLanes>
struct ComplexReals {
    Reals<kLanes> re, im;

    friend ComplexReals operator+(ComplexReals a, ComplexReals b) { return {a.re + b.re, a.im + b.im}; }
    friend ComplexReals operator-(ComplexReals a, ComplexReals b) { return {a.re - b.re, a.im - b.im}; }
    friend ComplexReals operator*(ComplexReals a, ComplexReals b) {
        return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    }
};

// Write a and b in turn: a[0], b[0], a[1], ...
template <int kLanes>
[[gnu::always_inline]] inline void store_pairs(std::int64_t* to, Wholes<kLanes> a, Wholes<kLanes> b) {
    if constexpr (kLanes == 1) {
        to[0] = a, to[1] = b;
    } else if constexpr (kLanes == 2) {
        store(to, shuffle<0, 2>(a, b));
        store(to + 2, shuffle<1, 3>(a, b));
    } else if constexpr (kLanes == 4) {
        const Wholes<4> even = shuffle<0, 4, 2, 6>(a, b);
        const Wholes<4> odd = shuffle<1, 5, 3, 7>(a, b);
        store(to, shuffle<0, 1, 4, 5>(even, odd));
        store(to + 4, shuffle<2, 3, 6, 7>(even, odd));
    } else {
        store(to, shuffle<0, 8, 1, 9, 2, 10, 3, 11>(a, b));
        store(to + 8, shuffle<4, 12, 5, 13, 6, 14, 7, 15>(a, b));
    }
}

// The lower (0) or upper (1) half. By name where there are instructions: GCC 12 copies through memory.
template <int kWhich>
[[gnu::always_inline]] inline Wholes<4> half(Wholes<8> value) {
#ifdef __AVX512F__
    return std::bit_cast<Wholes<4>>(
        _mm512_maskz_extracti64x4_epi64(0xF, std::bit_cast<__m512i>(value), kWhich));
#else
    Wholes<4> out;
    std::memcpy(&out, reinterpret_cast<const char*>(&value) + kWhich * sizeof(out), sizeof(out));
    return out;
#endif
}

// Write four vectors as the columns of rows of four numbers, which are `stride` numbers apart.
template <int kLanes>
[[gnu::always_inline]] inline void store_rows(std::int64_t* to, std::int64_t stride,
                                              const Wholes<kLanes> (&columns)[4]) {
    const auto& [a, b, c, d] = columns;
    if constexpr (kLanes == 1) {
        to[0] = a, to[1] = b, to[2] = c, to[3] = d;
    } else if constexpr (kLanes == 2) {
        store(to, shuffle<0, 2>(a, b));
        store(to + 2, shuffle<0, 2>(c, d));
        store(to + stride, shuffle<1, 3>(a, b));
        store(to + stride + 2, shuffle<1, 3>(c, d));
    } else if constexpr (kLanes == 4) {
        const Wholes<4> even[2] = {shuffle<0, 4, 2, 6>(a, b), shuffle<0, 4, 2, 6>(c, d)};
        const Wholes<4> odd[2] = {shuffle<1, 5, 3, 7>(a, b), shuffle<1, 5, 3, 7>(c, d)};
        store(to, shuffle<0, 1, 4, 5>(even[0], even[1]));
        store(to + stride, shuffle<0, 1, 4, 5>(odd[0], odd[1]));
        store(to + 2 * stride, shuffle<2, 3, 6, 7>(even[0], even[1]));
        store(to + 3 * stride, shuffle<2, 3, 6, 7>(odd[0], odd[1]));
    } else {
        const Wholes<8> even[2] = {shuffle<0, 8, 2, 10, 4, 12, 6, 14>(a, b),
                                   shuffle<0, 8, 2, 10, 4, 12, 6, 14>(c, d)};
        const Wholes<8> odd[2] = {shuffle<1, 9, 3, 11, 5, 13, 7, 15>(a, b),
                                  shuffle<1, 9, 3, 11, 5, 13, 7, 15>(c, d)};
        const Wholes<8> rows[4] = {shuffle<0, 1, 8, 9, 4, 5, 12, 13>(even[0], even[1]),
                                   shuffle<0, 1, 8, 9, 4, 5, 12, 13>(odd[0], odd[1]),
                                   shuffle<2, 3, 10, 11, 6, 7, 14, 15>(even[0], even[1]),
                                   shuffle<2, 3, 10, 11, 6, 7, 14, 15>(odd[0], odd[1])};
        for (int row = 0; row < 4; ++row) {  // those of samples `row` and row + 4
            store(to + row * stride, half<0>(rows[row]));
            store(to + (row + 4) * stride, half<1>(rows[row]));
        }
    }
}

// Transpose a block of as many rows as lanes, in registers.
[[gnu::always_inline]] inline void transpose(Reals<1> (&)[1]) {}

[[gnu::always_inline]] inline void transpose(Reals<2> (&rows)[2]) {
    const Reals<2> first = rows[0];
    rows[0] = shuffle<0, 2>(first, rows[1]);
    rows[1] = shuffle<1, 3>(first, rows[1]);
}

[[gnu::always_inline]] inline void transpose(Reals<4> (&rows)[4]) {
    Reals<4> pairs[4];
    for (int i = 0; i < 4; i += 2) {
        pairs[i] = shuffle<0, 4, 2, 6>(rows[i], rows[i + 1]);
        pairs[i + 1] = shuffle<1, 5, 3, 7>(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 2; ++i) {
        rows[i] = shuffle<0, 1, 4, 5>(pairs[i], pairs[i + 2]);
        rows[i + 2] = shuffle<2, 3, 6, 7>(pairs[i], pairs[i + 2]);
    }
}

[[gnu::always_inline]] inline void transpose(Reals<8> (&rows)[8]) {
    Reals<8> pairs[8], quads[8];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = shuffle<0, 8, 2, 10, 4, 12, 6, 14>(rows[i], rows[i + 1]);
        pairs[i + 1] = shuffle<1, 9, 3, 11, 5, 13, 7, 15>(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; ++j) {
            quads[i + j] = shuffle<0, 1, 8, 9, 4, 5, 12, 13>(pairs[i + j], pairs[i + j + 2]);
            quads[i + j + 2] = shuffle<2, 3, 10, 11, 6, 7, 14, 15>(pairs[i + j], pairs[i + j + 2]);
        }
    for (int i = 0; i < 4; ++i) {
        rows[i] = shuffle<0, 1, 2, 3, 8, 9, 10, 11>(quads[i], quads[i + 4]);
        rows[i + 4] = shuffle<4, 5, 6, 7, 12, 13, 14, 15>(quads[i], quads[i + 4]);
    }
}

}  // namespace petacomm
