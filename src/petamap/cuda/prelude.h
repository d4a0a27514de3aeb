// What the kernels use of the standard library, which compilers at run time do not have.
namespace std {

using int8_t = signed char;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint32_t = unsigned int;
using uint64_t = unsigned long;
using size_t = decltype(sizeof(0));

using ::ceil, ::copysign, ::fabs, ::floor, ::nearbyint, ::sqrt;

template <class T>
constexpr const T& min(const T& a, const T& b) {
    return b < a ? b : a;
}

template <class T>
constexpr const T& max(const T& a, const T& b) {
    return a < b ? b : a;
}

template <class T>
constexpr const T& clamp(const T& value, const T& low, const T& high) {
    return value < low ? low : high < value ? high : value;
}

template <class To, class From>
To bit_cast(const From& from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

inline int popcount(uint64_t bits) { return __popcll(bits); }

template <class T>
struct numeric_limits;

template <>
struct numeric_limits<int64_t> {
    static constexpr int64_t max() { return 0x7fffffffffffffff; }
};

namespace numbers {
constexpr double inv_pi = 0x1.45f306dc9c883p-2;
}

}  // namespace std

#define HUGE_VAL __longlong_as_double(0x7ff0000000000000)

inline std::int64_t nearest_integer(double value) { return __double2ll_rn(value); }

inline void add_to(std::int64_t* sum, std::int64_t value) {
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(value));
}

constexpr int kThreads = 128;  // of a block (petamap.cuda.device)

#define SHARED(type, name) __shared__ type name

template <class Work>
inline void in_threads(const Work& work) {
    work(static_cast<int>(threadIdx.x), static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x);
    __syncthreads();
}
