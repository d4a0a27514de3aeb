// Eight doubles as one value: one AVX-512 register, or several narrower ones; the same operations in each
// lane whatever the machine, so the same bits.
#pragma once

#include <cstring>

namespace petacomm {

typedef double Lanes __attribute__((vector_size(64)));
constexpr std::size_t kLanes = 8;

inline Lanes load(const double* from) {
    Lanes value;
    std::memcpy(&value, from, sizeof(Lanes));
    return value;
}

inline void store(double* to, Lanes value) { std::memcpy(to, &value, sizeof(Lanes)); }

struct ComplexLanes {
    Lanes re, im;
};

inline ComplexLanes operator+(ComplexLanes a, ComplexLanes b) { return {a.re + b.re, a.im + b.im}; }
inline ComplexLanes operator-(ComplexLanes a, ComplexLanes b) { return {a.re - b.re, a.im - b.im}; }
inline ComplexLanes operator*(ComplexLanes a, ComplexLanes b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// Transpose an 8 x 8 block held in eight registers.
inline void transpose(Lanes (&rows)[8]) {
    Lanes pairs[8], quads[8];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = __builtin_shufflevector(rows[i], rows[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        pairs[i + 1] = __builtin_shufflevector(rows[i], rows[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; ++j) {
            quads[i + j] = __builtin_shufflevector(pairs[i + j], pairs[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            quads[i + j + 2] =
                __builtin_shufflevector(pairs[i + j], pairs[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; ++i) {
        rows[i] = __builtin_shufflevector(quads[i], quads[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        rows[i + 4] = __builtin_shufflevector(quads[i], quads[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

}  // namespace petacomm
